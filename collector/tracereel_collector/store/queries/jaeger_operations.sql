-- Operations of services: span names and span kinds.
SELECT SpanName, SpanKind
FROM span_names
WHERE TenantId = {tenant:String}
  AND ServiceName IN {services:Array(String)}
  AND ({kind:String} = '' OR SpanKind = {kind:String})
GROUP BY SpanName, SpanKind
ORDER BY SpanName, SpanKind
LIMIT {limit:UInt32}
