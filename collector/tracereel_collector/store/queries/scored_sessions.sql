-- Ids of the sessions with a score that matches all conditions, the most recently scored first, as with `scored_runs`.
SELECT session_id
FROM
(
    SELECT
        session_key,
        argMax(session_id, sequence_number) AS session_id,
        max(sequence_number) AS newest,
        argMax((name, number, category), sequence_number) AS latest
    FROM score_tellings
    WHERE tenant = {tenant:String} AND trace_id = ''
    GROUP BY session_key, score_id
)
WHERE (empty({score_names:Array(String)}) OR has({score_names:Array(String)}, latest.1))
  AND (empty({score_categories:Array(String)}) OR has({score_categories:Array(String)}, latest.3))
  AND ({score_bounded:UInt8} = 0 OR latest.2 BETWEEN {min_score:Float64} AND {max_score:Float64})
GROUP BY session_id
ORDER BY max(newest) DESC
LIMIT {limit:UInt32}
