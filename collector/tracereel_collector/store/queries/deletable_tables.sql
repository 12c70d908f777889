-- Tables whose rows have a tenant and a run, with the names of these columns.
SELECT
    table,
    arrayFirst(c -> c IN ('tenant', 'TenantId'), groupArray(name)) AS tenant_column,
    arrayFirst(c -> c IN ('trace_id', 'TraceId'), groupArray(name)) AS trace_column,
    toString(has(groupArray(name), 'SpanId')) AS has_spans
FROM system.columns
WHERE database = currentDatabase()
  AND name IN ('tenant', 'TenantId', 'trace_id', 'TraceId', 'SpanId')
  AND table IN
  (
      SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'
  )
GROUP BY table
HAVING tenant_column != '' AND trace_column != ''
-- Events last: a repeated deletion needs them to find the other rows of a run.
ORDER BY table IN ('agent_events', 'agent_events_local'), table
