-- How long the rows of a tenant are kept; of one tenant the latest telling counts.
CREATE TABLE retention_rules
(
    tenant String CODEC(ZSTD(1)),
    days Nullable(UInt32) COMMENT 'after the day of arrival; 0: for ever; NULL: as the collector is set',
    set_at DateTime64(9, 'UTC'),
    set_by String CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(set_at)
ORDER BY tenant
SETTINGS $merge_tree_settings;
