-- Child runs of a run, and whether other instrumentations sent spans of its trace.
SELECT 'child' AS what, trace_id
FROM run_links
WHERE tenant = {tenant:String} AND parent_trace_id IN {trace_ids:Array(String)}
LIMIT {most:UInt32}
UNION ALL
(
    SELECT 'spans', ''
    FROM otel_spans
    WHERE TenantId = {tenant:String} AND TraceId = {otel_trace_id:String} AND Source = 'otlp'
    LIMIT 1
)
