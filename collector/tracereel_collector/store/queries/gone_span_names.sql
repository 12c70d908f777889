-- Names that no span of the tenant has any more.
SELECT DISTINCT toString(span_names.SpanName) AS name
FROM span_names
WHERE TenantId = {tenant:String}
  AND name NOT IN
  (
      SELECT toString(SpanName) FROM whole_spans WHERE TenantId = {tenant:String}
      UNION DISTINCT
      SELECT toString(SpanName) FROM untold_spans WHERE TenantId = {tenant:String}
  )
LIMIT {limit:UInt32}
