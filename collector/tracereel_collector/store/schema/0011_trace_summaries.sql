-- What lists and searches read: a row for each run and hour of its events, summed up as they come.
-- `opening` and `closing` are texts whose greatest wins: a rank, the clock, then what is kept.
CREATE TABLE trace_summaries
(
    tenant LowCardinality(String),
    hour DateTime('UTC') COMMENT 'of the events, by their own time',
    trace_id String CODEC(ZSTD(1)) COMMENT 'of spans that no event speaks of: their OpenTelemetry trace',
    day Date COMMENT 'of arrival',
    started SimpleAggregateFunction(min, DateTime64(9, 'UTC')) CODEC(Delta, ZSTD(1)),
    ended SimpleAggregateFunction(max, DateTime64(9, 'UTC')) CODEC(Delta, ZSTD(1)),
    opening SimpleAggregateFunction(max, String) CODEC(ZSTD(1)) COMMENT 'the earliest: name, tab, prompt',
    closing SimpleAggregateFunction(max, String) CODEC(ZSTD(1)) COMMENT 'the latest: status',
    pipelines_open SimpleAggregateFunction(sum, Int64) CODEC(ZSTD(1)) COMMENT 'started less ended',
    executions_open SimpleAggregateFunction(sum, Int64) CODEC(ZSTD(1)) COMMENT 'started less ended',
    events SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    spans SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'that came over OTLP',
    errors SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    retries SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    fallbacks SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    decisions SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    model_calls SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    tool_calls SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    call_tokens SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'of model calls',
    execution_tokens SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    span_tokens SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    call_nano_usd SimpleAggregateFunction(sum, Int64) CODEC(ZSTD(1)),
    execution_nano_usd SimpleAggregateFunction(sum, Int64) CODEC(ZSTD(1)),
    span_nano_usd SimpleAggregateFunction(sum, Int64) CODEC(ZSTD(1)),
    confidence SimpleAggregateFunction(min, Float64) CODEC(ZSTD(1)) COMMENT 'the lowest; 2 for none',
    parent_trace_id SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    otel_trace_ids SimpleAggregateFunction(groupUniqArrayArray(16), Array(String)) CODEC(ZSTD(1))
        COMMENT 'OpenTelemetry traces of a run whose id is another',
    tags SimpleAggregateFunction(groupUniqArrayArray(200), Array(String)) CODEC(ZSTD(1))
        COMMENT 'kind:value',
    INDEX by_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_tag tags TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY day
ORDER BY (tenant, hour, trace_id)
SETTINGS $merge_tree_settings;

TRUNCATE TABLE trace_summaries;

-- What was stored before this table existed.
INSERT INTO trace_summaries
$event_summaries;

INSERT INTO trace_summaries
$span_summaries;

CREATE MATERIALIZED VIEW agent_events_to_trace_summaries TO trace_summaries AS
$event_summaries;

CREATE MATERIALIZED VIEW otel_spans_to_trace_summaries TO trace_summaries AS
$span_summaries;
