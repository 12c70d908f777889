-- The cluster that this database is spread over, and how its nodes are reached; the latest row counts.
CREATE TABLE IF NOT EXISTS schema_cluster
(cluster String, nodes Array(Tuple(UInt32, UInt32, String, UInt16)), at DateTime64(6) DEFAULT now64(6))
ENGINE = MergeTree ORDER BY at
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
