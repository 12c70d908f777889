-- The runs that an OpenTelemetry trace is of.
SELECT DISTINCT if(Told = '', SpanAttributes['trace_id'], JSONExtractString(Told, 'trace_id')) AS run
FROM otel_spans
WHERE TenantId = {tenant:String} AND TraceId = {otel_trace_id:String} AND Source = 'event' AND run != ''
LIMIT {most:UInt32}
