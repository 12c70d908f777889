-- On a cluster: the tables that reach all shards, what each shard keeps of them, and the cluster's name.
SELECT
    name,
    extract(engine_full, '^Distributed\\(\'?\\w+\'?, \'?\\w+\'?, \'?(\\w+)') AS kept_in,
    extract(engine_full, '^Distributed\\(\'?(\\w+)') AS cluster
FROM system.tables
WHERE database = currentDatabase() AND engine = 'Distributed'
