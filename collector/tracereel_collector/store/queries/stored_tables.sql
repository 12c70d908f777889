-- Every table that keeps rows, how rows of one key are merged in it, and how it is partitioned.
SELECT name, engine, partition_key
FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%MergeTree'
ORDER BY name
