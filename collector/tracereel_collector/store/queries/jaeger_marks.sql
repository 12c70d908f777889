-- Retries, fallbacks and decisions inside spans of some traces, each once.
SELECT TraceId, SpanId, toUnixTimestamp64Nano(Timestamp) AS at, Name, Attributes
FROM otel_span_events
WHERE TenantId = {tenant:String} AND TraceId IN {traces:Array(String)}
ORDER BY TraceId, SpanId, Timestamp, SequenceNumber
LIMIT 1 BY TraceId, EventId
LIMIT {limit:UInt32}
