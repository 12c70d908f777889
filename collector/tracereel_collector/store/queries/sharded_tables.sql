-- Distributed tables of a cluster: name, and the local table of each shard.
SELECT distributed.name, stored.name
FROM system.tables AS distributed
INNER JOIN system.tables AS stored
    ON stored.database = distributed.database AND stored.name = concat(distributed.name, '_local')
WHERE distributed.database = currentDatabase() AND distributed.engine = 'Distributed'
