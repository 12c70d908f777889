-- What each agent did, minute by minute. Everything is a sum, so that what is forgotten can be
-- subtracted; durations and confidences are counted in buckets, of which percentiles are made.
CREATE TABLE agent_minutes
(
    tenant LowCardinality(String),
    minute DateTime('UTC') COMMENT 'of the events, by their own time',
    agent LowCardinality(String),
    month Date COMMENT 'of arrival',
    $agent_sum_definitions
)
ENGINE = AggregatingMergeTree
PARTITION BY month
ORDER BY (tenant, minute, agent)
SETTINGS $merge_tree_settings;

CREATE TABLE agent_hours
(
    tenant LowCardinality(String),
    minute DateTime('UTC') COMMENT 'the first of the hour',
    agent LowCardinality(String),
    month Date COMMENT 'of arrival',
    $agent_sum_definitions
)
ENGINE = AggregatingMergeTree
PARTITION BY month
ORDER BY (tenant, minute, agent)
SETTINGS $merge_tree_settings;

CREATE MATERIALIZED VIEW agent_minutes_to_agent_hours TO agent_hours AS
SELECT
    tenant,
    toStartOfHour(agent_minutes.minute) AS minute,
    agent,
    month,
    $agent_sums_again
FROM agent_minutes
GROUP BY tenant, minute, agent, month;

CREATE MATERIALIZED VIEW agent_events_to_agent_minutes TO agent_minutes AS
$event_agent_sums;

CREATE MATERIALIZED VIEW otel_spans_to_agent_minutes TO agent_minutes AS
$span_agent_sums;
