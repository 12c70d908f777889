-- What each agent did, minute by minute. Everything is a sum, so that what is forgotten can be
-- subtracted; durations and confidences are counted in buckets, of which percentiles are made.
CREATE TABLE IF NOT EXISTS agent_minutes$local
(
    tenant LowCardinality(String),
    minute DateTime('UTC') COMMENT 'of the events, by their own time',
    agent LowCardinality(String),
    month Date COMMENT 'of arrival',
    $agent_sum_definitions
)
ENGINE = ${replicated}AggregatingMergeTree($replica)
PARTITION BY month
ORDER BY (tenant, minute, agent)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS agent_minutes AS agent_minutes$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'agent_minutes$local', cityHash64(agent));

CREATE TABLE IF NOT EXISTS agent_hours$local
(
    tenant LowCardinality(String),
    minute DateTime('UTC') COMMENT 'the first of the hour',
    agent LowCardinality(String),
    month Date COMMENT 'of arrival',
    $agent_sum_definitions
)
ENGINE = ${replicated}AggregatingMergeTree($replica)
PARTITION BY month
ORDER BY (tenant, minute, agent)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS agent_hours AS agent_hours$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'agent_hours$local', cityHash64(agent));

CREATE MATERIALIZED VIEW IF NOT EXISTS agent_minutes_to_agent_hours TO agent_hours$local AS
SELECT
    tenant,
    toStartOfHour(agent_minutes.minute) AS minute,
    agent,
    month,
    $agent_sums_again
FROM agent_minutes$local AS agent_minutes
GROUP BY tenant, minute, agent, month;

CREATE MATERIALIZED VIEW IF NOT EXISTS agent_events_to_agent_minutes TO agent_minutes$local AS
$event_agent_sums;

CREATE MATERIALIZED VIEW IF NOT EXISTS otel_spans_to_agent_minutes TO agent_minutes$local AS
$span_agent_sums;

-- The model calls of spans, with the columns of `agent_minutes`: which agent made them, and which spans
-- describe one call, is known when their trace is settled. A call of no known agent has an empty name.
CREATE VIEW IF NOT EXISTS agent_calls AS
SELECT
    TenantId AS tenant,
    Minute AS minute,
    AgentName AS agent,
    toStartOfMonth(IngestedAt) AS month,
    $agent_sums_of_calls,
    toDate(IngestedAt) AS day
FROM settled_calls FINAL
WHERE Told = Repeated;
