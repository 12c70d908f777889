-- Every table that keeps rows, how rows of one key are merged in it, how it is partitioned, and whether
-- it forgets rows by itself.
SELECT name, engine, partition_key, if(position(engine_full, ' TTL ') > 0, '1', '')
FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%MergeTree'
ORDER BY name
