-- Names that no span of the tenant has any more. What a span is called stands in one small column of the
-- two tables, also where it is told by an event: nothing else of them is read.
SELECT DISTINCT toString(span_names.SpanName) AS name
FROM span_names
WHERE TenantId = {tenant:String}
  AND name GLOBAL NOT IN
  (
      SELECT toString(span_name) FROM agent_events WHERE tenant = {tenant:String} GROUP BY span_name
      UNION ALL
      SELECT toString(SpanName) FROM otel_spans WHERE TenantId = {tenant:String} GROUP BY SpanName
  )
LIMIT {limit:UInt32}
