-- What type an attribute of a span had that was no text: the maps hold texts only. One entry a name, for
-- the span, its resource and its events together; the numbers are those of OTLP's `AnyValue`.
ALTER TABLE spans_in ADD COLUMN IF NOT EXISTS AttributeTypes Map(LowCardinality(String), UInt8);

ALTER TABLE otel_spans ADD COLUMN IF NOT EXISTS AttributeTypes Map(LowCardinality(String), UInt8) CODEC(ZSTD(1));

ALTER TABLE otlp_to_spans MODIFY QUERY
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
FROM otlp_traces_in
ARRAY JOIN request.resource_spans AS rs, arrayEnumerate(request.resource_spans) AS r_at
ARRAY JOIN rs.scope_spans AS ss, arrayEnumerate(rs.scope_spans) AS ss_at
ARRAY JOIN ss.spans AS s, arrayEnumerate(ss.spans) AS s_at;

-- Which services there are and what they do: small, whatever the traffic.
CREATE TABLE span_names
(
    TenantId LowCardinality(String),
    ServiceName LowCardinality(String),
    SpanName String CODEC(ZSTD(1)),
    SpanKind LowCardinality(String),
    LastAt SimpleAggregateFunction(max, DateTime64(9, 'UTC')) CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY (TenantId, ServiceName, SpanName, SpanKind)
SETTINGS $merge_tree_settings;

CREATE MATERIALIZED VIEW spans_to_span_names TO span_names AS
SELECT TenantId, ServiceName, toString(SpanName) AS SpanName, SpanKind, max(IngestedAt) AS LastAt
FROM otel_spans
GROUP BY TenantId, ServiceName, SpanName, SpanKind;

-- What was stored before this table existed.
INSERT INTO span_names
SELECT TenantId, ServiceName, toString(SpanName) AS SpanName, SpanKind, max(IngestedAt) AS LastAt
FROM otel_spans
GROUP BY TenantId, ServiceName, SpanName, SpanKind;

-- Spans that no event has told whole: those that have begun, and those of senders that know no spans.
-- Where such a sender gives no id, one is made of what its events have in common.
CREATE TABLE event_spans
(
    TenantId LowCardinality(String),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    ParentSpanId String CODEC(ZSTD(1)),
    Timestamp DateTime64(9) CODEC(Delta, ZSTD(1)),
    Duration UInt64 CODEC(ZSTD(1)),
    SpanName LowCardinality(String),
    SpanKind LowCardinality(String),
    ServiceName LowCardinality(String),
    SpanAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    StatusCode LowCardinality(String),
    StatusMessage String CODEC(ZSTD(1)),
    State LowCardinality(String) COMMENT 'open: it has begun; closed: it has ended',
    EmitterId LowCardinality(String),
    SequenceNumber UInt64 CODEC(DoubleDelta, ZSTD(1)),
    IngestedAt DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, TraceId, SpanId)
SETTINGS $merge_tree_settings;

CREATE MATERIALIZED VIEW events_to_event_spans TO event_spans AS
$event_spans_query
;

INSERT INTO event_spans
$event_spans_query
;

CREATE MATERIALIZED VIEW event_spans_to_span_names TO span_names AS
SELECT TenantId, ServiceName, toString(SpanName) AS SpanName, SpanKind, max(IngestedAt) AS LastAt
FROM event_spans
GROUP BY TenantId, ServiceName, SpanName, SpanKind;

INSERT INTO span_names
SELECT TenantId, ServiceName, toString(SpanName) AS SpanName, SpanKind, max(IngestedAt) AS LastAt
FROM event_spans
GROUP BY TenantId, ServiceName, SpanName, SpanKind;
