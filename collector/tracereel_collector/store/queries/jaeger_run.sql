-- The OpenTelemetry traces of a run, by the name that its sender gave it.
SELECT otel_trace_id
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {run:String}
GROUP BY otel_trace_id
ORDER BY count() DESC, otel_trace_id
LIMIT 10
