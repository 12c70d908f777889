-- Names that no span of the tenant has any more. Both tables have the span name in a small column,
-- also for spans derived from events, so that only this column is read.
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
