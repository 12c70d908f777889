-- OpenTelemetry traces of some runs: whether other runs share them, and the spans of these runs in them.
SELECT
    otel_trace_id,
    toUInt8(countIf(trace_id NOT IN {ids:Array(String)}) > 0) AS shared,
    if(shared, groupUniqArrayIf(span_id, trace_id IN {ids:Array(String)} AND span_id != ''), []) AS spans
FROM agent_events
WHERE tenant = {tenant:String}
  AND otel_trace_id IN
  (
      SELECT otel_trace_id FROM agent_events
      WHERE tenant = {tenant:String} AND trace_id IN {ids:Array(String)}
  )
GROUP BY otel_trace_id
