-- Whether a run has events, or an OpenTelemetry trace has spans.
SELECT 1 FROM agent_events WHERE tenant = {tenant:String} AND trace_id = {trace_id:String} LIMIT 1
UNION ALL
SELECT 1 FROM otel_spans WHERE TenantId = {tenant:String} AND TraceId = {trace_id:String} LIMIT 1
