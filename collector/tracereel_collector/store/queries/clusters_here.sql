-- Clusters of several nodes, of which this server is one, by its configuration.
SELECT cluster FROM system.clusters
WHERE (SELECT count() FROM system.macros WHERE macro IN ('shard', 'replica')) = 2
GROUP BY cluster
HAVING count() > 1 AND max(is_local)
ORDER BY cluster
