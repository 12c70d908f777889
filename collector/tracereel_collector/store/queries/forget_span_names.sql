-- Names that no span of the tenant has any more.
ALTER TABLE span_names DELETE
WHERE TenantId = {tenant:String}
  AND SpanName NOT IN
  (
      SELECT toString(SpanName) FROM whole_spans WHERE TenantId = {tenant:String}
      UNION DISTINCT
      SELECT toString(SpanName) FROM untold_spans WHERE TenantId = {tenant:String}
  )
