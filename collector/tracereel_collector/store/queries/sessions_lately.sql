-- Ids of the sessions of some runs, most recently active first.
SELECT substring(session_tag, 9) AS session, toUnixTimestamp64Nano(max(r.ended)) AS last
FROM
(
    SELECT
        run,
        minIf(arrayFirst(t -> startsWith(t, 'session:'), arraySort(s.tags)) AS named, named != '') AS session_tag,
        max(s.ended) AS ended
    FROM ($rows) AS s
    GROUP BY run
) AS r
WHERE session_tag != ''
GROUP BY session_tag
HAVING (last, session) < ({place:Int64}, {place_name:String})
ORDER BY last DESC, session DESC
LIMIT {limit:UInt32}
