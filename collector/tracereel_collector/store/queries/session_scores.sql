-- The newest scores of each session, in their latest version.
SELECT session_key, latest.1, latest.2, latest.3, latest.4, latest.5
FROM
(
    SELECT session_key, score_id, max(sequence_number) AS newest,
        argMax((name, value_type, number, category, comment), sequence_number) AS latest
    FROM score_tellings
    WHERE tenant = {tenant:String} AND trace_id = '' AND session_key IN {sessions:Array(String)}
    GROUP BY session_key, score_id
)
ORDER BY newest DESC
LIMIT {most:UInt32} BY session_key
