-- Distributed tables of a cluster: name, local table, cluster.
SELECT
    name,
    extract(engine_full, '^Distributed\\(\'?\\w+\'?, \'?\\w+\'?, \'?(\\w+)') AS kept_in,
    extract(engine_full, '^Distributed\\(\'?(\\w+)') AS cluster
FROM system.tables
WHERE database = currentDatabase() AND engine = 'Distributed'
