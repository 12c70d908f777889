-- Spans of our own events are read out of the events: they were stored a second time, which took more
-- than everything else that happens to an event together.
ALTER TABLE agent_events ADD COLUMN IF NOT EXISTS span_name LowCardinality(String)
    DEFAULT $span_name_of_payload COMMENT 'of the span that the event tells, or lets be known';

ALTER TABLE agent_events ADD COLUMN IF NOT EXISTS span_began Int64
    DEFAULT JSONExtractInt(payload, 'span_start_unix_nano') CODEC(Delta, ZSTD(1))
    COMMENT 'ns; 0 where the event does not tell a whole span';

ALTER TABLE agent_events ADD COLUMN IF NOT EXISTS span_ended Int64
    DEFAULT JSONExtractInt(payload, 'span_end_unix_nano') CODEC(Delta, ZSTD(1)) COMMENT 'ns';

-- Runs are found by the trace they are known under elsewhere.
ALTER TABLE agent_events ADD INDEX IF NOT EXISTS by_otel_trace otel_trace_id TYPE bloom_filter(0.01) GRANULARITY 1;

ALTER TABLE agent_events MATERIALIZE INDEX by_otel_trace;

ALTER TABLE events_to_agent_events MODIFY QUERY
WITH
    ifNull(parseDateTime64BestEffortOrNull(upper(t.timestamp), 9, 'UTC'), ingested_at) AS at,
    reinterpretAsUInt64(reverse(unhex(t.hlc))) AS given,
    -- A clock more than a day ahead of the arrival is not followed: it would sort last for ever.
    if(t.hlc = '' OR given > toUInt64(toUnixTimestamp64Nano(ingested_at)) + 86400000000000,
       toUInt64(greatest(0, toUnixTimestamp64Nano(at))), given) AS clock
SELECT
    tenant,
    first_sequence_number + position - 1 AS sequence_number,
    ingested_at,
    t.event_id AS event_id,
    t.event_type AS event_type,
    if(t.event_version = '', '1.0.0', t.event_version) AS event_version,
    at AS timestamp,
    clock AS hlc,
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
    line AS payload,
    $span_name AS span_name,
    t.span_start_unix_nano AS span_began,
    t.span_end_unix_nano AS span_ended
FROM
(
    SELECT
        tenant,
        first_sequence_number,
        fromUnixTimestamp64Nano(toInt64(received_unix_nano), 'UTC') AS ingested_at,
        line,
        position,
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
            span_name String, tool_name String,
            span_start_unix_nano Int64, span_end_unix_nano Int64)') AS t
    FROM events_in
    ARRAY JOIN
        splitByChar('\n', body) AS line,
        arrayEnumerate(splitByChar('\n', body)) AS position
);

DROP VIEW IF EXISTS events_to_spans;

ALTER TABLE otel_spans DELETE WHERE Source = 'event';

DROP VIEW IF EXISTS events_to_event_spans;

DROP VIEW IF EXISTS event_spans_to_span_names;

DROP TABLE IF EXISTS event_spans;

-- Spans that no event has told whole: those that have begun, and those of senders that know no spans.
-- Where such a sender gives no id, one is made of what its events have in common.
CREATE VIEW untold_spans AS
$untold_spans_query;

-- Every span, whoever told it: those that came over OTLP, and those of our own events.
CREATE VIEW whole_spans AS
SELECT $span_columns, '' AS Told FROM otel_spans WHERE Source = 'otlp'
UNION ALL
SELECT $told_span_columns, Told FROM
(
$told_spans_query
);

CREATE OR REPLACE VIEW otel_traces AS
SELECT * EXCEPT (AttributeTypes, Told) FROM whole_spans
ORDER BY Source DESC, Duration > 0 DESC, SequenceNumber DESC, Position DESC
LIMIT 1 BY TenantId, TraceId, SpanId;

CREATE OR REPLACE VIEW model_calls AS
SELECT
    c.* EXCEPT (CostUsd),
    multiIf(
        isNotNull(c.CostUsd), c.CostUsd,
        p.PricedAs = '' OR isNull(c.PromptTokens) OR (c.CallKind = 'llm' AND isNull(c.CompletionTokens)), NULL,
        (
            greatest(toFloat64(assumeNotNull(c.PromptTokens)) - ifNull(c.CacheReadTokens, 0)
                - ifNull(c.CacheWriteTokens, 0), 0) * p.Input
            + ifNull(c.CacheReadTokens, 0) * ifNull(p.CacheRead, p.Input)
            + ifNull(c.CacheWriteTokens, 0) * ifNull(p.CacheWrite, p.Input)
            + ifNull(c.CompletionTokens, 0) * p.Output
        ) / 1000000
    ) AS CostUsd,
    multiIf(
        isNotNull(c.CostUsd), 'sent',
        isNull(c.PromptTokens) OR (c.CallKind = 'llm' AND isNull(c.CompletionTokens)), 'no_usage',
        p.PricedAs = '', 'unknown_model',
        'prices'
    ) AS CostSource,
    p.PricedAs AS PricedAs
FROM
(
    SELECT
        TenantId, TraceId, SpanId, ParentSpanId, Timestamp, Duration, ServiceName, SpanName, CallKind,
        Provider, ModelRequested, if(ModelServed = '', ModelRequested, ModelServed) AS Model,
        PromptTokens, CompletionTokens, TotalTokens, CacheReadTokens, CacheWriteTokens, ReasoningTokens,
        CostUsd, AgentName, WorkflowName, SessionId, UserId, FinishReason, ErrorType, FirstTokenMs, ResponseId
    FROM otel_traces
    WHERE CallKind IN $direct_kinds
        AND (TenantId, TraceId, SpanId) NOT IN (
            SELECT TenantId, TraceId, ParentSpanId
            FROM whole_spans
            WHERE CallKind IN $direct_kinds AND isNotNull(TotalTokens) AND ParentSpanId != ''
        )
    ORDER BY isNull(TotalTokens), Timestamp DESC
    LIMIT 1 BY TenantId, TraceId, if(ResponseId = '', SpanId, ResponseId)
) AS c
ASOF LEFT JOIN priced_models AS p
    ON c.Provider = p.Provider AND c.Model = p.Model AND c.Timestamp >= p.ValidFrom;

CREATE MATERIALIZED VIEW events_to_model_usage TO model_usage AS
SELECT
    tenant AS TenantId,
    toDate(ingested_at) AS Day,
    $told_provider AS Provider,
    if(llm_model = '', JSONExtractString(payload, 'llm_model_requested'), llm_model) AS Model,
    count() AS Calls,
    countIf(isNull(llm_cost_usd) AND isNotNull(coalesce(llm_tokens_used, llm_prompt_tokens))) AS CallsWithoutCost
FROM agent_events
WHERE event_type = $own_client_type AND $told_closes AND $told_kind IN $direct_kinds
GROUP BY TenantId, Day, Provider, Model;

CREATE MATERIALIZED VIEW events_to_span_names TO span_names AS
SELECT
    tenant AS TenantId,
    service AS ServiceName,
    toString(span_name) AS SpanName,
    if(event_type = $own_client_type, 'Client', 'Internal') AS SpanKind,
    max(ingested_at) AS LastAt
FROM agent_events
WHERE span_name != ''
GROUP BY TenantId, ServiceName, SpanName, SpanKind;
