-- OTLP trace requests as they came, one row each; the view behind it decodes them.
CREATE TABLE IF NOT EXISTS otlp_traces_raw
(
    tenant String,
    first_sequence_number UInt64,
    received_unix_nano UInt64,
    request $otlp_request_type
)
ENGINE = Null;

-- Spans on their way to `otel_spans`: the exporter's columns and where they came from.
-- `AttributeTypes` has the type of each attribute that is not a string, since the maps hold strings: one
-- entry per name for the span, its resource and its events; the numbers are those of OTLP's `AnyValue`.
CREATE TABLE IF NOT EXISTS spans_in
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
    Source LowCardinality(String),
    AttributeTypes Map(LowCardinality(String), UInt8)
)
ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_to_spans TO spans_in AS
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
    'otlp' AS Source,
    $attribute_types AS AttributeTypes
FROM otlp_traces_raw
ARRAY JOIN request.resource_spans AS rs, arrayEnumerate(request.resource_spans) AS r_at
ARRAY JOIN rs.scope_spans AS ss, arrayEnumerate(rs.scope_spans) AS ss_at
ARRAY JOIN ss.spans AS s, arrayEnumerate(ss.spans) AS s_at;

-- What happens inside a span comes before the span, in events of its own: kept under the span's id,
-- to be joined when a trace is read.
CREATE TABLE IF NOT EXISTS otel_span_events$local
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
ENGINE = ${replicated}MergeTree($replica)
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, TraceId, SpanId, Timestamp)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS otel_span_events AS otel_span_events$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'otel_span_events$local', cityHash64(TraceId));

CREATE MATERIALIZED VIEW IF NOT EXISTS events_to_otel_span_events TO otel_span_events$local AS
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
    FROM agent_events$local
    WHERE span_id != '' AND event_type IN $own_mark_types
);

-- The columns of the OpenTelemetry clickhouseexporter, and ours behind them. Spans with content are sorted
-- by session, so that a window holds what its traces repeat, and are found by the index; all others are
-- sorted by trace.
CREATE TABLE IF NOT EXISTS otel_spans$local
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
    SequenceNumber UInt64 COMMENT 'of the request or event it came with' CODEC(DoubleDelta, ZSTD(1)),
    Position UInt64 COMMENT 'place within the request: grows from span to span' CODEC(Delta, ZSTD(1)),
    IngestedAt DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    Source LowCardinality(String) COMMENT 'otlp, or event: derived from the event that closed it',
    $canonical_definitions,
    AttributeTypes Map(LowCardinality(String), UInt8) CODEC(ZSTD(1)),
    ContentAttributes Map(LowCardinality(String), String)
        COMMENT 'long values of spans with more than 4 KiB of them' $content_codec,
    Conversation String COMMENT 'the session of a span with content; else empty' CODEC(ZSTD(1)),
    INDEX by_trace TraceId TYPE bloom_filter(0.01) GRANULARITY 1
)
ENGINE = ${replicated}MergeTree($replica)
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, Conversation, TraceId, Timestamp, SpanId)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS otel_spans AS otel_spans$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'otel_spans$local', cityHash64(TraceId));

-- What the many dialects say about agents and models, in one form (`store/dialects`).
-- Long values, mostly messages, are in a column of their own: calls of a session repeat them, which a large
-- window finds, and readers of other attributes need not decompress them (docs/adr/018).
CREATE MATERIALIZED VIEW IF NOT EXISTS spans_to_otel_spans TO otel_spans AS
WITH byteSize(span.SpanAttributes) > $inline_content AS is_large
SELECT
    span.* EXCEPT (SpanAttributes),
    if(is_large, mapFilter((k, v) -> length(v) <= $short_value, span.SpanAttributes), span.SpanAttributes)
        AS SpanAttributes,
    mapFilter((k, v) -> length(v) > $short_value, if(is_large, span.SpanAttributes,
        CAST(map() AS Map(LowCardinality(String), String)))) AS ContentAttributes,
    -- A key of the sort order has a limit.
    if(empty(ContentAttributes), '', left(span.SessionId, 256)) AS Conversation
FROM
(
$translated_spans
) AS span;

-- Spans without a closing event: those that have begun, and those of senders that know no spans.
-- Where such a sender gives no id, one is made of what its events have in common.
CREATE VIEW IF NOT EXISTS untold_spans AS
$untold_spans_query;

-- Every span: those that came over OTLP, and those of our own events.
CREATE VIEW IF NOT EXISTS whole_spans AS
SELECT
    $span_columns,
    '' AS Told,
    SpanAttributes AS ShortAttributes
FROM otel_spans WHERE Source = 'otlp'
UNION ALL
SELECT $told_span_columns, Told, SpanAttributes FROM
(
$told_spans_query
);

-- What people read: each span once, under the exporter's name. Of a span that came both ways, the
-- one the sender's own exporter sent is shown: it has whatever else was put on it. Of one that came
-- several times, the last that has ended: some senders send a span before it has ended.
CREATE VIEW IF NOT EXISTS otel_traces AS
SELECT * EXCEPT (AttributeTypes, Told, ShortAttributes) FROM whole_spans
ORDER BY Source DESC, Duration > 0 DESC, SequenceNumber DESC, Position DESC
LIMIT 1 BY TenantId, TraceId, SpanId;

-- The spans of model calls as the collector has settled them (docs/adr/022): which describe a call that
-- another span describes too, and which agent made the call. The row that has seen the most is in force.
CREATE TABLE IF NOT EXISTS settled_calls$local
(
    TenantId LowCardinality(String),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    IngestedAt DateTime64(9, 'UTC') COMMENT 'the first arrival of the span' CODEC(Delta, ZSTD(1)),
    Minute DateTime('UTC') COMMENT 'of the call, by its own time' CODEC(Delta, ZSTD(1)),
    Told UInt8 COMMENT 'whether an event tells of it, which the sums of events have' CODEC(ZSTD(1)),
    Repeated UInt8 COMMENT 'whether another span of the call is counted' CODEC(ZSTD(1)),
    AgentName LowCardinality(String) COMMENT 'the agent that made the call',
    Model LowCardinality(String),
    Tokens Int64 CODEC(ZSTD(1)),
    NanoUsd Int64 COMMENT 'cost as sent' CODEC(ZSTD(1)),
    Unpriced Map(String, Int64)
        COMMENT 'tokens without a cost: provider, tab, model, tab, kind of token' CODEC(ZSTD(1)),
    Seen UInt64 COMMENT 'records of the trace that were known' CODEC(ZSTD(1))
)
ENGINE = ${replicated}ReplacingMergeTree(${replica_and}Seen)
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, TraceId, SpanId)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS settled_calls AS settled_calls$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'settled_calls$local', cityHash64(TraceId));

-- Input and output of models and tools, rebuilt on reading: select a trace, not a month.
CREATE VIEW IF NOT EXISTS otel_content AS
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
SELECT *, $numbered_input AS numbered_input, $numbered_output AS numbered_output
FROM
(
SELECT *, $numbered_groups AS numbered_groups
FROM
(
SELECT
    TenantId, TraceId, SpanId, Timestamp, SpanName, CallKind, ToolName, ToolCallId,
    SpanAttributes['gen_ai.input.messages'] AS best_input,
    SpanAttributes['gen_ai.output.messages'] AS best_output,
    $numbered_pairs AS numbered_pairs,
    $event_input AS event_input,
    $event_output AS event_output,
    if(CallKind = 'embedding', '', $other_input) AS other_input,
    if(CallKind = 'embedding', '', $other_output) AS other_output,
    SpanAttributes['gen_ai.system_instructions'] AS SystemInstructions,
    $tool_arguments AS said_arguments,
    $tool_result AS said_result,
    multiIf(CallKind != 'tool' OR said_arguments != '', said_arguments, $whole_input) AS ToolArguments,
    multiIf(CallKind != 'tool' OR said_result != '', said_result, $whole_output) AS ToolResult
FROM otel_traces
)))));

-- Which services there are and what they do: small, whatever the traffic.
CREATE TABLE IF NOT EXISTS span_names$local
(
    TenantId LowCardinality(String),
    ServiceName LowCardinality(String),
    SpanName String CODEC(ZSTD(1)),
    SpanKind LowCardinality(String),
    LastAt SimpleAggregateFunction(max, DateTime64(9, 'UTC')) CODEC(ZSTD(1))
)
ENGINE = ${replicated}AggregatingMergeTree($replica)
ORDER BY (TenantId, ServiceName, SpanName, SpanKind)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS span_names AS span_names$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'span_names$local', cityHash64(SpanName));

CREATE MATERIALIZED VIEW IF NOT EXISTS spans_to_span_names TO span_names$local AS
SELECT TenantId, ServiceName, toString(SpanName) AS SpanName, SpanKind, max(IngestedAt) AS LastAt
FROM otel_spans$local
GROUP BY TenantId, ServiceName, SpanName, SpanKind;

CREATE MATERIALIZED VIEW IF NOT EXISTS events_to_span_names TO span_names$local AS
SELECT
    tenant AS TenantId,
    service AS ServiceName,
    toString(span_name) AS SpanName,
    if(event_type = $own_client_type, 'Client', 'Internal') AS SpanKind,
    max(ingested_at) AS LastAt
FROM agent_events$local
WHERE span_name != ''
GROUP BY TenantId, ServiceName, SpanName, SpanKind;
