-- Whether other instrumentations sent spans of some OpenTelemetry traces.
SELECT 1
FROM otel_spans
WHERE TenantId = {tenant:String} AND TraceId IN {trace_ids:Array(String)} AND Source = 'otlp'
LIMIT 1
