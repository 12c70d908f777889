-- Runs with a score that matches all conditions. The latest version of a score counts, taken as a tuple:
-- argMax of a single column would skip a NULL in favour of an older version.
SELECT trace_id
FROM
(
    SELECT trace_id, argMax((name, number, category), sequence_number) AS latest
    FROM score_tellings
    WHERE tenant = {tenant:String} AND trace_id != ''
    GROUP BY trace_id, score_id
)
WHERE (empty({score_names:Array(String)}) OR has({score_names:Array(String)}, latest.1))
  AND (empty({score_categories:Array(String)}) OR has({score_categories:Array(String)}, latest.3))
  AND ({score_bounded:UInt8} = 0 OR latest.2 BETWEEN {min_score:Float64} AND {max_score:Float64})
