-- Nodes of a cluster: shard, replica, host, port of the native protocol, whether it is this one.
SELECT shard_num, replica_num, host_name, port, is_local
FROM system.clusters
WHERE cluster = {cluster:String}
ORDER BY shard_num, replica_num
