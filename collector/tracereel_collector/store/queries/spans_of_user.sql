-- Spans that name a user.
SELECT DISTINCT TraceId, SpanId
FROM otel_spans
WHERE TenantId = {tenant:String} AND UserId = {user_id:String}
LIMIT {limit:UInt32}
