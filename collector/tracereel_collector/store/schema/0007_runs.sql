-- What lists and searches read: a row for each run and hour of its events, summed up as they come.
-- `opening` and `closing` are texts whose greatest wins: a rank (pipeline 5, agent 4, call without a parent 3,
-- span without a parent 2, other call 1, other span 0), the clock, then what is kept.
-- The sums of spans count each span as it comes; a row that is added when its trace is settled corrects them
-- for spans that describe one call (docs/adr/022).
CREATE TABLE IF NOT EXISTS trace_summaries$local
(
    tenant LowCardinality(String),
    hour DateTime('UTC') COMMENT 'of the events, by their own time',
    trace_id String COMMENT 'of spans that no event speaks of: their OpenTelemetry trace' CODEC(ZSTD(1)),
    day Date COMMENT 'of arrival',
    started SimpleAggregateFunction(min, DateTime64(9, 'UTC')) CODEC(Delta, ZSTD(1)),
    ended SimpleAggregateFunction(max, DateTime64(9, 'UTC')) CODEC(Delta, ZSTD(1)),
    arrived SimpleAggregateFunction(max, DateTime64(9, 'UTC')) COMMENT 'when the last span came' CODEC(Delta, ZSTD(1)),
    opening SimpleAggregateFunction(max, String) COMMENT 'of the outermost, the earliest: name, tab, prompt' CODEC(ZSTD(1)),
    closing SimpleAggregateFunction(max, String) COMMENT 'of the outermost, the latest: status' CODEC(ZSTD(1)),
    answer SimpleAggregateFunction(max, String) COMMENT 'the latest of the outermost: output' CODEC(ZSTD(1)),
    pipelines_open SimpleAggregateFunction(sum, Int64) COMMENT 'started less ended' CODEC(ZSTD(1)),
    executions_open SimpleAggregateFunction(sum, Int64) COMMENT 'started less ended' CODEC(ZSTD(1)),
    events SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    spans SimpleAggregateFunction(sum, UInt64) COMMENT 'that came over OTLP' CODEC(ZSTD(1)),
    own_spans SimpleAggregateFunction(sum, UInt64) COMMENT 'those of the SDK, which events tell too' CODEC(ZSTD(1)),
    span_events SimpleAggregateFunction(sum, UInt64) COMMENT 'that programs added to spans' CODEC(ZSTD(1)),
    errors SimpleAggregateFunction(sum, UInt64)
        COMMENT 'failed executions and calls outside of agents' CODEC(ZSTD(1)),
    span_errors SimpleAggregateFunction(sum, Int64) COMMENT 'failed spans' CODEC(ZSTD(1)),
    failed_pipelines SimpleAggregateFunction(sum, UInt64) COMMENT 'count where nothing else failed' CODEC(ZSTD(1)),
    own_span_errors SimpleAggregateFunction(sum, UInt64) COMMENT 'count where no event came' CODEC(ZSTD(1)),
    retries SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    fallbacks SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    decisions SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    model_calls SimpleAggregateFunction(sum, UInt64) COMMENT 'that events tell' CODEC(ZSTD(1)),
    span_calls SimpleAggregateFunction(sum, Int64) COMMENT 'model calls of spans' CODEC(ZSTD(1)),
    tool_calls SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    call_tokens SimpleAggregateFunction(sum, UInt64) COMMENT 'of model calls' CODEC(ZSTD(1)),
    execution_tokens SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    span_tokens SimpleAggregateFunction(sum, Int64) CODEC(ZSTD(1)),
    call_nano_usd SimpleAggregateFunction(sum, Int64) CODEC(ZSTD(1)),
    execution_nano_usd SimpleAggregateFunction(sum, Int64) CODEC(ZSTD(1)),
    span_nano_usd SimpleAggregateFunction(sum, Int64) CODEC(ZSTD(1)),
    confidence SimpleAggregateFunction(min, Float64) COMMENT 'the lowest; 2 for none' CODEC(ZSTD(1)),
    parent_trace_id SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    otel_trace_ids SimpleAggregateFunction(groupUniqArrayArray(16), Array(String))
        COMMENT 'OpenTelemetry traces of a run whose id is another' CODEC(ZSTD(1)),
    tags SimpleAggregateFunction(groupUniqArrayArray(200), Array(String))
        COMMENT 'kind:value' CODEC(ZSTD(1)),
    call_unpriced SimpleAggregateFunction(sumMap, Map(String, UInt64))
        COMMENT 'tokens of model calls without a cost: provider, tab, model, tab, kind of token' CODEC(ZSTD(1)),
    span_unpriced SimpleAggregateFunction(sumMap, Map(String, Int64))
        COMMENT 'the same of spans that came over OTLP' CODEC(ZSTD(1)),
    settled SimpleAggregateFunction(sum, Int64)
        COMMENT 'events and spans of a trace for which the sums of spans are corrected' CODEC(ZSTD(1)),
    INDEX by_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_tag tags TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ${replicated}AggregatingMergeTree($replica)
PARTITION BY day
ORDER BY (tenant, hour, trace_id)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS trace_summaries AS trace_summaries$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'trace_summaries$local', cityHash64(trace_id));

CREATE MATERIALIZED VIEW IF NOT EXISTS agent_events_to_trace_summaries TO trace_summaries$local AS
$event_summaries;

CREATE MATERIALIZED VIEW IF NOT EXISTS otel_spans_to_trace_summaries TO trace_summaries$local AS
$span_summaries;

-- Texts of a run, for full-text search: prompts, outputs, reasoning, errors, in a row a run and batch.
-- The index alone answers for words; the text is read for phrases.
CREATE TABLE IF NOT EXISTS trace_texts$local
(
    tenant LowCardinality(String),
    hour DateTime('UTC') COMMENT 'of the events, by their own time',
    trace_id String CODEC(ZSTD(1)),
    day Date COMMENT 'of arrival',
    text String CODEC(ZSTD(1)),
    INDEX words text TYPE text(tokenizer = 'splitByNonAlpha', preprocessor = lowerUTF8(text))
)
ENGINE = ${replicated}MergeTree($replica)
PARTITION BY day
ORDER BY (tenant, hour, trace_id)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS trace_texts AS trace_texts$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'trace_texts$local', cityHash64(trace_id));

CREATE MATERIALIZED VIEW IF NOT EXISTS agent_events_to_trace_texts TO trace_texts$local AS
$event_texts;

CREATE MATERIALIZED VIEW IF NOT EXISTS event_content_to_trace_texts TO trace_texts$local AS
$content_texts;

CREATE MATERIALIZED VIEW IF NOT EXISTS otel_spans_to_trace_texts TO trace_texts$local AS
$span_texts;

CREATE MATERIALIZED VIEW IF NOT EXISTS otel_logs_to_trace_texts TO trace_texts$local AS
$log_texts;

-- Which run was started by which: a run may name the trace it is part of.
CREATE TABLE IF NOT EXISTS run_links$local
(
    tenant LowCardinality(String),
    parent_trace_id String CODEC(ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    ingested_at SimpleAggregateFunction(min, DateTime64(9, 'UTC')) CODEC(ZSTD(1))
)
ENGINE = ${replicated}AggregatingMergeTree($replica)
ORDER BY (tenant, parent_trace_id, trace_id)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS run_links AS run_links$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'run_links$local', cityHash64(trace_id));

CREATE MATERIALIZED VIEW IF NOT EXISTS agent_events_to_run_links TO run_links$local AS
SELECT tenant, parent_trace_id, trace_id, min(agent_events.ingested_at) AS ingested_at
FROM agent_events$local AS agent_events
WHERE parent_trace_id != '' AND parent_trace_id != trace_id
GROUP BY tenant, parent_trace_id, trace_id;
