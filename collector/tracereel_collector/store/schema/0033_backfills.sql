-- Which parts of what was stored before a column existed it was filled for; the rest is still to come.
CREATE TABLE backfills
(
    what LowCardinality(String) COMMENT 'the column',
    part String COMMENT 'of what was stored',
    at DateTime('UTC') DEFAULT now()
)
ENGINE = MergeTree
ORDER BY (what, part)
SETTINGS $merge_tree_settings;
