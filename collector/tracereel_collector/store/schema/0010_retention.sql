-- How long the rows of a tenant are kept; of one tenant the latest telling counts.
CREATE TABLE IF NOT EXISTS retention_rules$local
(
    tenant String CODEC(ZSTD(1)),
    days Nullable(UInt32) COMMENT 'after the day of arrival; 0: for ever; NULL: as the collector is set',
    set_at DateTime64(9, 'UTC'),
    set_by String CODEC(ZSTD(1))
)
ENGINE = ${replicated}ReplacingMergeTree(${replica_and}set_at)
ORDER BY tenant
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS retention_rules AS retention_rules$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'retention_rules$local', cityHash64(tenant));
