-- Tables that store rows, with their engines and partition keys.
SELECT name, engine, partition_key
FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%MergeTree'
ORDER BY name
