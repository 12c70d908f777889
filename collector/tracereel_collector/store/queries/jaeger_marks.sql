-- Retries, fallbacks and decisions in spans of some traces, deduplicated.
SELECT TraceId, SpanId, toUnixTimestamp64Nano(Timestamp) AS at, Name, Attributes
FROM otel_span_events
WHERE TenantId = {tenant:String} AND TraceId IN {traces:Array(String)}
ORDER BY TraceId, SpanId, Timestamp, SequenceNumber
LIMIT 1 BY TraceId, EventId
LIMIT {limit:UInt32}
