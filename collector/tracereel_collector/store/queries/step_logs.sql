-- Log records of a span that hold messages of a model (OpenTelemetry's GenAI events), by time.
SELECT
    if(EventName = '', LogAttributes['event.name'], EventName) AS name,
    Body,
    LogAttributes
FROM otel_logs
WHERE TenantId = {tenant:String} AND TraceId IN {trace_ids:Array(String)} AND SpanId = {span_id:String}
    AND startsWith(name, 'gen_ai.')
ORDER BY Timestamp, SequenceNumber
LIMIT {limit:UInt32}
