-- Spans that name a user.
SELECT DISTINCT TraceId, SpanId
FROM otel_spans
WHERE TenantId = {tenant:String} AND UserId IN {user_ids:Array(String)}
LIMIT {limit:UInt32}
