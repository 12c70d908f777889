-- What of the schema this node has.
CREATE TABLE IF NOT EXISTS schema_migrations
(number UInt32, name String, checksum String, applied_at DateTime DEFAULT now())
ENGINE = MergeTree ORDER BY number
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
