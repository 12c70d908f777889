-- The newest scores of each run, in their latest version.
SELECT trace_id, latest.1, latest.2, latest.3, latest.4, (latest.5 != '' OR latest.6 != '')::Bool
FROM
(
    SELECT trace_id, score_id, max(sequence_number) AS newest,
        argMax((name, value_type, number, category, span_id, execution_id), sequence_number) AS latest
    FROM score_tellings
    WHERE tenant = {tenant:String} AND trace_id IN {runs:Array(String)}
    GROUP BY trace_id, score_id
)
ORDER BY newest DESC
LIMIT {most:UInt32} BY trace_id
