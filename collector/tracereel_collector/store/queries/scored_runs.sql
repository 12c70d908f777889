-- Runs of which one score is as wanted, all of it at once. The latest telling of a score counts, and is taken
-- whole: alone, a value that is null would be skipped for that of an older telling.
SELECT trace_id
FROM
(
    SELECT trace_id, argMax((name, number, category), sequence_number) AS latest
    FROM score_tellings
    WHERE tenant = {tenant:String}
    GROUP BY trace_id, score_id
)
WHERE (empty({score_names:Array(String)}) OR has({score_names:Array(String)}, latest.1))
  AND (empty({score_categories:Array(String)}) OR has({score_categories:Array(String)}, latest.3))
  AND ({score_bounded:UInt8} = 0 OR latest.2 BETWEEN {min_score:Float64} AND {max_score:Float64})
