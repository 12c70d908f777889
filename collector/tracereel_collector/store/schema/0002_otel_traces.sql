-- OTLP trace requests as they came, one row each; the view behind it decodes them.
CREATE TABLE otlp_traces_in
(
    tenant String,
    first_sequence_number UInt64,
    received_unix_nano UInt64,
    request $otlp_request_type
)
ENGINE = Null;

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
    SequenceNumber UInt64 CODEC(DoubleDelta, ZSTD(1)) COMMENT 'of the request the span came with',
    IngestedAt DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, TraceId, Timestamp, SpanId)
SETTINGS $merge_tree_settings;

-- What people read: each span once, under the exporter's name.
CREATE VIEW otel_traces AS
SELECT * FROM otel_spans ORDER BY SequenceNumber LIMIT 1 BY TenantId, TraceId, SpanId;

CREATE MATERIALIZED VIEW otlp_to_otel_spans TO otel_spans AS
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
    fromUnixTimestamp64Nano(toInt64(received_unix_nano), 'UTC') AS IngestedAt
FROM otlp_traces_in
ARRAY JOIN request.resource_spans AS rs
ARRAY JOIN rs.scope_spans AS ss
ARRAY JOIN ss.spans AS s;
