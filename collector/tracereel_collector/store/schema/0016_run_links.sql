-- Which run was started by which: a run may name the trace it is part of.
CREATE TABLE run_links
(
    tenant LowCardinality(String),
    parent_trace_id String CODEC(ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    ingested_at SimpleAggregateFunction(min, DateTime64(9, 'UTC')) CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY (tenant, parent_trace_id, trace_id)
SETTINGS $merge_tree_settings;

CREATE MATERIALIZED VIEW agent_events_to_run_links TO run_links AS
SELECT tenant, parent_trace_id, trace_id, min(agent_events.ingested_at) AS ingested_at
FROM agent_events
WHERE parent_trace_id != '' AND parent_trace_id != trace_id
GROUP BY tenant, parent_trace_id, trace_id;

-- What was stored before this table existed.
INSERT INTO run_links
SELECT tenant, parent_trace_id, trace_id, min(agent_events.ingested_at) AS ingested_at
FROM agent_events
WHERE parent_trace_id != '' AND parent_trace_id != trace_id
GROUP BY tenant, parent_trace_id, trace_id;
