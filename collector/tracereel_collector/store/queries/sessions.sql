-- Sessions active in a window, most recently active first.
SELECT
    substring(session_tag, 9) AS session,
    toUnixTimestamp64Nano(max(r.ended)) AS last,
    formatDateTime(min(r.started), '%Y-%m-%dT%H:%i:%S.%fZ') AS started_at,
    formatDateTime(max(r.ended), '%Y-%m-%dT%H:%i:%S.%fZ') AS ended_at,
    count() AS runs,
    countIf(r.status = 'failed') AS failed_runs,
    sum(r.errors) AS errors,
    sum(r.tokens) AS tokens,
    sum(r.nano_usd) AS nano_usd,
    sumMap(r.unpriced) AS unpriced,
    arraySort(groupUniqArrayIf(20)(substring(r.user_tag, 6), r.user_tag != '')) AS users,
    argMax(r.run, r.started) AS last_run,
    argMax(r.status, r.started) AS last_status,
    substring(argMax(r.opening, r.started), 18) AS last_opened,
    argMax(substring(r.answer, 18), r.started) AS answered,
    -- The opening of a run that started before the window is not among the rows. Calls (ranks below 4)
    -- name a session only if nothing else does.
    substring(if(max(r.opening) >= '4', argMinIf(r.opening, r.started, r.opening >= '4'),
        argMinIf(r.opening, r.started, r.opening != '')), 18) AS opened
FROM
(
    SELECT
        run,
        minIf(arrayFirst(t -> startsWith(t, 'session:'), arraySort(s.tags)) AS named, named != '') AS session_tag,
        minIf(arrayFirst(t -> startsWith(t, 'user:'), arraySort(s.tags)) AS used, used != '') AS user_tag,
        max(hasAny(s.tags, {user_tags:Array(String)})) AS is_of_user,
        min(s.started) AS started,
        max(s.ended) AS ended,
        max(s.opening) AS opening,
        $errors AS errors,
        $status AS status,
        -- As in search_found.sql.
        if(status IN ('failed', 'cancelled') AND left(max(s.answer), 17) < left(max(s.closing), 17),
            '', max(s.answer)) AS answer,
        $tokens AS tokens,
        $nano_usd AS nano_usd,
        $unpriced AS unpriced
    FROM ($rows) AS s
    GROUP BY run
) AS r
WHERE session_tag != '' AND (empty({session_tags:Array(String)}) OR session_tag IN {session_tags:Array(String)})
  AND (empty({user_tags:Array(String)}) OR is_of_user)
GROUP BY session_tag
HAVING (last, session) < ({place:Int64}, {place_name:String})
ORDER BY last DESC, session DESC
LIMIT {limit:UInt32}
