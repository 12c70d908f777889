-- Log records of some spans that hold messages of a model, as `step_logs`; long ones are left out.
SELECT
    TraceId,
    SpanId,
    if(EventName = '', LogAttributes['event.name'], EventName) AS name,
    Body,
    LogAttributes
FROM otel_logs
WHERE TenantId = {tenant:String} AND TraceId IN {traces:Array(String)} AND SpanId IN {spans:Array(String)}
    AND startsWith(name, 'gen_ai.') AND length(Body) + byteSize(LogAttributes) <= {longest:UInt32}
ORDER BY Timestamp DESC, SequenceNumber DESC
LIMIT {elements:UInt8} BY TraceId, SpanId
