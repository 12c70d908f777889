-- OTLP trace requests as they came, one row each; the view behind it decodes them.
CREATE TABLE otlp_traces_in
(
    tenant String,
    first_sequence_number UInt64,
    received_unix_nano UInt64,
    request $otlp_request_type
)
ENGINE = Null;

-- Spans of every origin on their way to `otel_spans`: the exporter's columns and where they came from.
CREATE TABLE spans_in
(
    Timestamp DateTime64(9),
    TraceId String,
    SpanId String,
    ParentSpanId String,
    TraceState String,
    SpanName LowCardinality(String),
    SpanKind LowCardinality(String),
    ServiceName LowCardinality(String),
    ResourceAttributes Map(LowCardinality(String), String),
    ScopeName String,
    ScopeVersion String,
    SpanAttributes Map(LowCardinality(String), String),
    Duration UInt64,
    StatusCode LowCardinality(String),
    StatusMessage String,
    Events Nested
    (
        Timestamp DateTime64(9),
        Name LowCardinality(String),
        Attributes Map(LowCardinality(String), String)
    ),
    Links Nested
    (
        TraceId String,
        SpanId String,
        TraceState String,
        Attributes Map(LowCardinality(String), String)
    ),
    TenantId LowCardinality(String),
    SequenceNumber UInt64,
    Position UInt64,
    IngestedAt DateTime64(9, 'UTC'),
    Source LowCardinality(String)
)
ENGINE = Null;

CREATE MATERIALIZED VIEW otlp_to_spans TO spans_in AS
SELECT
    fromUnixTimestamp64Nano(toInt64(least(s.start_time_unix_nano, $max_unix_nano))) AS Timestamp,
    lower(hex(s.trace_id)) AS TraceId,
    lower(hex(s.span_id)) AS SpanId,
    lower(hex(s.parent_span_id)) AS ParentSpanId,
    s.trace_state AS TraceState,
    s.name AS SpanName,
    transform(s.kind, [1, 2, 3, 4, 5],
              ['Internal', 'Server', 'Client', 'Producer', 'Consumer'], 'Unspecified') AS SpanKind,
    ResourceAttributes['service.name'] AS ServiceName,
    $resource_attributes AS ResourceAttributes,
    ss.scope.name AS ScopeName,
    ss.scope.version AS ScopeVersion,
    $span_attributes AS SpanAttributes,
    if(s.end_time_unix_nano > s.start_time_unix_nano,
       s.end_time_unix_nano - s.start_time_unix_nano, 0) AS Duration,
    transform(s.status.code, [1, 2], ['Ok', 'Error'], 'Unset') AS StatusCode,
    s.status.message AS StatusMessage,
    arrayMap(e -> fromUnixTimestamp64Nano(toInt64(least(e.time_unix_nano, $max_unix_nano))), s.events)
        AS `Events.Timestamp`,
    arrayMap(e -> toLowCardinality(e.name), s.events) AS `Events.Name`,
    arrayMap(e -> $event_attributes, s.events) AS `Events.Attributes`,
    arrayMap(l -> lower(hex(l.trace_id)), s.links) AS `Links.TraceId`,
    arrayMap(l -> lower(hex(l.span_id)), s.links) AS `Links.SpanId`,
    arrayMap(l -> l.trace_state, s.links) AS `Links.TraceState`,
    arrayMap(l -> $link_attributes, s.links) AS `Links.Attributes`,
    tenant AS TenantId,
    first_sequence_number AS SequenceNumber,
    bitShiftLeft(toUInt64(r_at), 42) + bitShiftLeft(toUInt64(ss_at), 21) + s_at AS Position,
    fromUnixTimestamp64Nano(toInt64(received_unix_nano), 'UTC') AS IngestedAt,
    'otlp' AS Source
FROM otlp_traces_in
ARRAY JOIN request.resource_spans AS rs, arrayEnumerate(request.resource_spans) AS r_at
ARRAY JOIN rs.scope_spans AS ss, arrayEnumerate(rs.scope_spans) AS ss_at
ARRAY JOIN ss.spans AS s, arrayEnumerate(ss.spans) AS s_at;

-- Our SDK sends events only: the event that closes an execution carries the whole span.
CREATE MATERIALIZED VIEW events_to_spans TO spans_in AS
SELECT
    fromUnixTimestamp64Nano(began) AS Timestamp,
    otel_trace_id AS TraceId,
    span_id AS SpanId,
    parent_span_id AS ParentSpanId,
    '' AS TraceState,
    span_name AS SpanName,
    if(event_type = $own_client_type, 'Client', 'Internal') AS SpanKind,
    service AS ServiceName,
    CAST(map('service.name', service) AS Map(LowCardinality(String), String)) AS ResourceAttributes,
    'tracereel' AS ScopeName,
    '' AS ScopeVersion,
    $own_attributes AS SpanAttributes,
    toUInt64(greatest(ended - began, 0)) AS Duration,
    if(failed, 'Error', 'Unset') AS StatusCode,
    if(failed, concat(error_type, if(error_message = '', '', ': '), error_message), '') AS StatusMessage,
    if(failed, [fromUnixTimestamp64Nano(ended)], []) AS `Events.Timestamp`,
    if(failed, [toLowCardinality('exception')], []) AS `Events.Name`,
    if(failed, [CAST(mapFilter((k, v) -> v != '', map(
        'exception.type', toString(error_type), 'exception.message', error_message,
        'exception.stacktrace', stack_trace)) AS Map(LowCardinality(String), String))], [])
        AS `Events.Attributes`,
    tenant AS TenantId,
    sequence_number AS SequenceNumber,
    toUInt64(0) AS Position,
    ingested_at AS IngestedAt,
    'event' AS Source
FROM
(
    SELECT
        tenant, sequence_number, ingested_at, event_type, otel_trace_id, span_id, parent_span_id,
        service, error_type,
        $event_fields AS fields,
        $own_attribute_pairs AS pairs,
        JSONExtractString(payload, 'span_name') AS span_name,
        JSONExtractInt(payload, 'span_start_unix_nano') AS began,
        JSONExtractInt(payload, 'span_end_unix_nano') AS ended,
        JSONExtractString(payload, 'error_message') AS error_message,
        JSONExtractString(payload, 'stack_trace') AS stack_trace,
        status = 'failed' AS failed
    FROM agent_events
    WHERE span_id != '' AND startsWith(event_type, 'agent.')
        AND position(payload, '"span_start_unix_nano"') > 0
)
WHERE began > 0 AND span_name != '';

-- What happens inside a span comes before the span, in events of its own: kept under the span's id,
-- to be joined when a trace is read.
CREATE TABLE otel_span_events
(
    TenantId LowCardinality(String),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    Timestamp DateTime64(9) CODEC(Delta, ZSTD(1)),
    Name LowCardinality(String),
    Attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    EventId String CODEC(ZSTD(1)),
    SequenceNumber UInt64 CODEC(DoubleDelta, ZSTD(1)),
    IngestedAt DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, TraceId, SpanId, Timestamp)
SETTINGS $merge_tree_settings;

CREATE MATERIALIZED VIEW events_to_otel_span_events TO otel_span_events AS
SELECT
    tenant AS TenantId,
    otel_trace_id AS TraceId,
    span_id AS SpanId,
    timestamp AS Timestamp,
    transform(event_type, $own_mark_types, $own_mark_names, '') AS Name,
    $own_attributes AS Attributes,
    event_id AS EventId,
    sequence_number AS SequenceNumber,
    ingested_at AS IngestedAt
FROM
(
    SELECT *, $event_fields AS fields, $own_mark_pairs AS pairs
    FROM agent_events
    WHERE span_id != '' AND event_type IN $own_mark_types
);

-- The columns of the OpenTelemetry clickhouseexporter, and ours behind them.
CREATE TABLE otel_spans
(
    Timestamp DateTime64(9) CODEC(Delta, ZSTD(1)),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    ParentSpanId String CODEC(ZSTD(1)),
    TraceState String CODEC(ZSTD(1)),
    SpanName LowCardinality(String) CODEC(ZSTD(1)),
    SpanKind LowCardinality(String) CODEC(ZSTD(1)),
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion String CODEC(ZSTD(1)),
    SpanAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    Duration UInt64 CODEC(ZSTD(1)),
    StatusCode LowCardinality(String) CODEC(ZSTD(1)),
    StatusMessage String CODEC(ZSTD(1)),
    Events Nested
    (
        Timestamp DateTime64(9),
        Name LowCardinality(String),
        Attributes Map(LowCardinality(String), String)
    ) CODEC(ZSTD(1)),
    Links Nested
    (
        TraceId String,
        SpanId String,
        TraceState String,
        Attributes Map(LowCardinality(String), String)
    ) CODEC(ZSTD(1)),
    TenantId LowCardinality(String),
    SequenceNumber UInt64 CODEC(DoubleDelta, ZSTD(1)) COMMENT 'of the request or event it came with',
    Position UInt64 CODEC(Delta, ZSTD(1)) COMMENT 'place within the request: grows from span to span',
    IngestedAt DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    Source LowCardinality(String) COMMENT 'otlp, or event: derived from the event that closed it',
    $canonical_definitions
)
ENGINE = MergeTree
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, TraceId, Timestamp, SpanId)
SETTINGS $merge_tree_settings;

-- What the many dialects say about agents and models, in one form (`store/dialects`).
CREATE MATERIALIZED VIEW spans_to_otel_spans TO otel_spans AS
$translated_spans;

-- What people read: each span once, under the exporter's name. Of a span that came both ways, the
-- one the sender's own exporter sent is shown: it has whatever else was put on it. Of one that came
-- several times, the last that has ended: some senders tell of a span before it is over.
CREATE VIEW otel_traces AS
SELECT * FROM otel_spans
ORDER BY Source DESC, Duration > 0 DESC, SequenceNumber DESC, Position DESC
LIMIT 1 BY TenantId, TraceId, SpanId;

-- What was said to and by models and tools, rebuilt on reading: ask for a trace, not for a month.
CREATE VIEW otel_content AS
SELECT
    TenantId, TraceId, SpanId, Timestamp, SpanName, CallKind,
    concat('[', arrayStringConcat(arrayMap(m -> $normal_input, input_list), ','), ']') AS InputMessages,
    concat('[', arrayStringConcat(output_messages, ','), ']') AS OutputMessages,
    SystemInstructions,
    concat('[', arrayStringConcat(arrayFilter(p -> JSONExtractString(p, 'type') = 'tool_call',
        arrayFlatten(arrayMap(m -> JSONExtractArrayRaw(m, 'parts'), output_messages))), ','), ']')
        AS ToolCalls,
    ToolName, ToolCallId, ToolArguments, ToolResult
FROM
(
    SELECT *, arrayMap(m -> $normal_output, output_list) AS output_messages
    FROM
    (
        SELECT
            *,
            if(CallKind = 'tool', [], $chosen_input) AS input_list,
            if(CallKind = 'tool', [], $chosen_output) AS output_list
        FROM
        (
            SELECT
                TenantId, TraceId, SpanId, Timestamp, SpanName, CallKind, ToolName, ToolCallId,
                SpanAttributes['gen_ai.input.messages'] AS best_input,
                SpanAttributes['gen_ai.output.messages'] AS best_output,
                $numbered_input AS numbered_input,
                $numbered_output AS numbered_output,
                $event_input AS event_input,
                $event_output AS event_output,
                if(CallKind = 'embedding', '', $other_input) AS other_input,
                if(CallKind = 'embedding', '', $other_output) AS other_output,
                SpanAttributes['gen_ai.system_instructions'] AS SystemInstructions,
                $tool_arguments AS said_arguments,
                $tool_result AS said_result,
                multiIf(CallKind != 'tool' OR said_arguments != '', said_arguments, $whole_input)
                    AS ToolArguments,
                multiIf(CallKind != 'tool' OR said_result != '', said_result, $whole_output)
                    AS ToolResult
            FROM otel_traces
        )
    )
);
