-- The events that have question and answer of recorded runs: the first start and the last end of a pipeline, or else
-- of an execution.
SELECT
    trace_id,
    argMinIf(sequence_number, (event_type NOT IN {pipelines:Array(String)}, hlc), endsWith(event_type, '.started')),
    argMaxIf(sequence_number, (event_type IN {pipelines:Array(String)}, hlc), NOT endsWith(event_type, '.started'))
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id IN {runs:Array(String)}
    AND event_type IN arrayConcat({pipelines:Array(String)}, {executions:Array(String)})
GROUP BY trace_id
