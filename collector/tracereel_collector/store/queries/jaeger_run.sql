-- OpenTelemetry traces of a run, by the run's id.
SELECT otel_trace_id
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {run:String}
GROUP BY otel_trace_id
ORDER BY count() DESC, otel_trace_id
LIMIT 10
