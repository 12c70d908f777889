-- Runs of an OpenTelemetry trace.
SELECT DISTINCT trace_id AS run
FROM agent_events
WHERE tenant = {tenant:String} AND otel_trace_id = {otel_trace_id:String} AND span_id != '' AND run != ''
LIMIT {most:UInt32}
