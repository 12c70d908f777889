-- Bodies of events as they came, one row each; the view behind it decodes them.
CREATE TABLE IF NOT EXISTS events_raw
(
    tenant String,
    first_sequence_number UInt64,
    received_unix_nano UInt64,
    body String
)
ENGINE = Null;

-- One row per event. Spans of our own events are read from here (`whole_spans`), not stored twice.
-- The indexes skip the parts that do not hold a run: its id is within the range of almost all of them.
CREATE TABLE IF NOT EXISTS agent_events$local
(
    tenant LowCardinality(String),
    sequence_number UInt64 CODEC(DoubleDelta, ZSTD(1)),
    ingested_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    event_id String CODEC(ZSTD(1)),
    event_type LowCardinality(String),
    event_version LowCardinality(String),
    timestamp DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    hlc UInt64 COMMENT 'hybrid logical clock, ns; the timestamp where absent' CODEC(Delta, ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    otel_trace_id String CODEC(ZSTD(1)),
    parent_trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    parent_span_id String CODEC(ZSTD(1)),
    request_id String CODEC(ZSTD(1)),
    session_id String CODEC(ZSTD(1)),
    user_id String CODEC(ZSTD(1)),
    execution_id String CODEC(ZSTD(1)),
    service LowCardinality(String),
    emitter_id LowCardinality(String),
    emitter_seq UInt64 CODEC(Delta, ZSTD(1)),
    trace_seq UInt64 CODEC(Delta, ZSTD(1)),
    agent_name LowCardinality(String),
    agent_version LowCardinality(String),
    pipeline_type LowCardinality(String),
    status LowCardinality(String),
    duration_ms Nullable(UInt64) CODEC(ZSTD(1)),
    confidence Nullable(Float64) CODEC(ZSTD(1)),
    llm_provider LowCardinality(String),
    llm_model LowCardinality(String),
    llm_tokens_used Nullable(UInt64) CODEC(ZSTD(1)),
    llm_prompt_tokens Nullable(UInt64) CODEC(ZSTD(1)),
    llm_completion_tokens Nullable(UInt64) CODEC(ZSTD(1)),
    llm_cost_usd Nullable(Float64) CODEC(ZSTD(1)),
    error_type LowCardinality(String),
    error_code LowCardinality(String),
    error_category LowCardinality(String),
    decision_type LowCardinality(String),
    decision_category LowCardinality(String),
    chosen String COMMENT 'of a decision: a text as it is, anything else as JSON' CODEC(ZSTD(1)),
    threshold Nullable(Float64) COMMENT 'confidence that a decision needed' CODEC(ZSTD(1)),
    payload String COMMENT 'the event as it was sent; large content is in event_content' CODEC(ZSTD(1)),
    span_name LowCardinality(String) COMMENT 'of the span that the event tells, or lets be known',
    span_began Int64 COMMENT 'ns; 0 where the event does not tell a whole span' CODEC(Delta, ZSTD(1)),
    span_ended Int64 COMMENT 'ns' CODEC(Delta, ZSTD(1)),
    content_bytes UInt32 COMMENT 'of its content in event_content; 0 for none' CODEC(ZSTD(1)),
    unpriced Map(String, UInt64)
        COMMENT 'tokens of a model call without a cost: provider, tab, model, tab, kind of token' CODEC(ZSTD(1)),
    INDEX by_otel_trace otel_trace_id TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX by_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ${replicated}MergeTree($replica)
PARTITION BY toDate(ingested_at)
ORDER BY (tenant, trace_id, hlc, sequence_number)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS agent_events AS agent_events$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'agent_events$local', cityHash64(trace_id));

-- One parse per line. A key that is absent or null leaves the default ('' or NULL): never an error.
CREATE MATERIALIZED VIEW IF NOT EXISTS events_to_agent_events TO agent_events AS
SELECT
    tenant,
    first_sequence_number + position - 1 AS sequence_number,
    ingested_at,
    t.event_id AS event_id,
    t.event_type AS event_type,
    if(t.event_version = '', '1.0.0', t.event_version) AS event_version,
    $event_time AS timestamp,
    $event_clock AS hlc,
    t.trace_id AS trace_id,
    multiIf(
        t.otel_trace_id != '', t.otel_trace_id,
        match(t.trace_id, '^[0-9a-fA-F]{32}$$'), lower(t.trace_id),
        left(lower(hex(SHA256(t.trace_id))), 32)
    ) AS otel_trace_id,
    t.parent_trace_id AS parent_trace_id,
    t.span_id AS span_id,
    t.parent_span_id AS parent_span_id,
    t.request_id AS request_id,
    t.session_id AS session_id,
    t.user_id AS user_id,
    t.execution_id AS execution_id,
    t.service AS service,
    t.emitter_id AS emitter_id,
    t.emitter_seq AS emitter_seq,
    t.trace_seq AS trace_seq,
    t.agent_name AS agent_name,
    t.agent_version AS agent_version,
    t.pipeline_type AS pipeline_type,
    multiIf(
        t.status != '', t.status,
        endsWith(t.event_type, '.completed'), 'success',
        endsWith(t.event_type, '.failed'), 'failed',
        endsWith(t.event_type, '.cancelled'), 'cancelled',
        ''
    ) AS status,
    coalesce(
        t.execution_time_ms, t.execution_time_before_failure_ms, t.execution_time_before_cancel_ms,
        t.total_execution_time_ms, t.duration_ms, t.decision_duration_ms
    ) AS duration_ms,
    coalesce(t.confidence, t.final_confidence, t.fallback_confidence) AS confidence,
    t.llm_provider AS llm_provider,
    t.llm_model AS llm_model,
    t.llm_tokens_used AS llm_tokens_used,
    t.llm_prompt_tokens AS llm_prompt_tokens,
    t.llm_completion_tokens AS llm_completion_tokens,
    t.llm_cost_usd AS llm_cost_usd,
    t.error_type AS error_type,
    t.error_code AS error_code,
    t.error_category AS error_category,
    t.decision_type AS decision_type,
    t.decision_category AS decision_category,
    t.chosen AS chosen,
    t.threshold AS threshold,
    if($is_split, $split_head, line) AS payload,
    $span_name AS span_name,
    t.span_start_unix_nano AS span_began,
    t.span_end_unix_nano AS span_ended,
    if($is_split, length($split_content), 0) AS content_bytes,
    $unpriced AS unpriced
FROM
(
    SELECT
        tenant,
        first_sequence_number,
        fromUnixTimestamp64Nano(toInt64(received_unix_nano), 'UTC') AS ingested_at,
        line,
        position,
        $split_columns
        JSONExtract(line, 'Tuple(
            event_id String, event_type String, event_version String, timestamp String, hlc String,
            trace_id String, otel_trace_id String, parent_trace_id String,
            span_id String, parent_span_id String, request_id String, session_id String,
            user_id String, execution_id String, service String,
            emitter_id String, emitter_seq UInt64, trace_seq UInt64,
            agent_name String, agent_version String, pipeline_type String, status String,
            execution_time_ms Nullable(UInt64), execution_time_before_failure_ms Nullable(UInt64),
            execution_time_before_cancel_ms Nullable(UInt64), total_execution_time_ms Nullable(UInt64),
            duration_ms Nullable(UInt64), decision_duration_ms Nullable(UInt64),
            confidence Nullable(Float64), final_confidence Nullable(Float64),
            fallback_confidence Nullable(Float64),
            llm_provider String, llm_model String, llm_tokens_used Nullable(UInt64),
            llm_prompt_tokens Nullable(UInt64), llm_completion_tokens Nullable(UInt64),
            llm_cost_usd Nullable(Float64),
            error_type String, error_code String, error_category String,
            decision_type String, decision_category String, chosen String, threshold Nullable(Float64),
            span_name String, tool_name String,
            span_start_unix_nano Int64, span_end_unix_nano Int64,
            operation String, llm_model_requested String,
            llm_cached_tokens UInt64, llm_cache_creation_tokens UInt64)') AS t
    FROM events_raw
    ARRAY JOIN
        splitByChar('\n', body) AS line,
        arrayEnumerate(splitByChar('\n', body)) AS position
);

-- Content of events that put it last, behind `content_bytes` (`store/event_lines.py`): messages, values.
-- Sorted by conversation and compressed with a window of 16 MiB, the history that each call of a
-- conversation repeats takes almost no space (docs/adr/018).
CREATE TABLE IF NOT EXISTS event_content$local
(
    tenant LowCardinality(String),
    conversation String COMMENT 'the session, else the run' CODEC(ZSTD(1)),
    hlc UInt64 CODEC(Delta, ZSTD(1)),
    sequence_number UInt64 CODEC(DoubleDelta, ZSTD(1)),
    ingested_at DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    timestamp DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    trace_id String CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    event_id String CODEC(ZSTD(1)),
    event_type LowCardinality(String),
    content String COMMENT 'a JSON object: the fields behind content_bytes' $content_codec,
    INDEX by_trace trace_id TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ${replicated}MergeTree($replica)
PARTITION BY toDate(ingested_at)
ORDER BY (tenant, conversation, hlc, sequence_number)
SETTINGS $content_settings;
$on_cluster CREATE TABLE IF NOT EXISTS event_content AS event_content$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'event_content$local', cityHash64(conversation));

CREATE MATERIALIZED VIEW IF NOT EXISTS events_to_event_content TO event_content AS
SELECT
    tenant,
    if(t.session_id = '', t.trace_id, t.session_id) AS conversation,
    $event_clock AS hlc,
    sequence_number,
    ingested_at,
    $event_time AS timestamp,
    t.trace_id AS trace_id,
    t.span_id AS span_id,
    t.event_id AS event_id,
    t.event_type AS event_type,
    $split_content AS content
FROM
(
    SELECT
        tenant,
        first_sequence_number + position - 1 AS sequence_number,
        fromUnixTimestamp64Nano(toInt64(received_unix_nano), 'UTC') AS ingested_at,
        line,
        $split_columns
        JSONExtract(line, 'Tuple(
            event_id String, event_type String, timestamp String, hlc String,
            trace_id String, span_id String, session_id String)') AS t
    FROM (SELECT * FROM events_raw WHERE $has_content)
    ARRAY JOIN
        splitByChar('\n', body) AS line,
        arrayEnumerate(splitByChar('\n', body)) AS position
    WHERE $is_split
);

-- Each decision once, with the candidates it chose from. A candidate is a value or an object with a name
-- (or value, or label) and a score (or confidence), unless the event lists the scores.
CREATE VIEW IF NOT EXISTS decisions AS
SELECT
    tenant, trace_id, event_id, timestamp, session_id, user_id, service, agent_name,
    JSONExtractString(payload, 'decision_id') AS decision_id,
    decision_type, decision_category, chosen, confidence, threshold,
    JSONExtractString(payload, 'reasoning') AS reasoning,
    duration_ms,
    JSONExtractBool(payload, 'was_cached') AS was_cached,
    arrayMap(c -> multiIf(
        JSONHas(c, 'name'), JSONExtract(c, 'name', 'String'),
        JSONHas(c, 'value'), JSONExtract(c, 'value', 'String'),
        JSONHas(c, 'label'), JSONExtract(c, 'label', 'String'),
        JSONExtract(c, 'String')), JSONExtractArrayRaw(payload, 'candidates')) AS candidate_names,
    if(JSONType(payload, 'candidate_scores') = 'Array',
        JSONExtract(payload, 'candidate_scores', 'Array(Nullable(Float64))'),
        arrayMap(c -> coalesce(JSONExtract(c, 'score', 'Nullable(Float64)'),
            JSONExtract(c, 'confidence', 'Nullable(Float64)')), JSONExtractArrayRaw(payload, 'candidates')))
        AS candidate_scores
FROM agent_events
WHERE event_type = 'agent.decision.recorded'
LIMIT 1 BY tenant, trace_id, event_id;
