-- Tables partitioned by day of arrival: name, tenant column, day of a row.
SELECT table, any(columns.name) AS tenant_column, any(tables.partition_key) AS day
FROM system.columns AS columns
INNER JOIN system.tables AS tables ON tables.database = columns.database AND tables.name = columns.table
WHERE columns.database = currentDatabase()
  AND columns.name IN ('tenant', 'TenantId')
  AND tables.engine LIKE '%MergeTree'
  AND tables.partition_key IN ('toDate(ingested_at)', 'toDate(IngestedAt)', 'day')
GROUP BY table
-- Events last, because the rows derived from them must be deleted first.
ORDER BY table IN ('agent_events', 'agent_events_local'), table
