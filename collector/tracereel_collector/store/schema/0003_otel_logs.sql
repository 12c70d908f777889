-- OTLP log requests as they came, one row each; the view behind it decodes them.
CREATE TABLE IF NOT EXISTS otlp_logs_raw
(
    tenant String,
    first_sequence_number UInt64,
    received_unix_nano UInt64,
    request $otlp_logs_type
)
ENGINE = Null;

-- The columns of the OpenTelemetry clickhouseexporter, and ours behind them.
CREATE TABLE IF NOT EXISTS otel_logs$local
(
    Timestamp DateTime64(9) CODEC(Delta, ZSTD(1)),
    TimestampTime DateTime ALIAS toDateTime(Timestamp),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    TraceFlags UInt8,
    SeverityText LowCardinality(String) CODEC(ZSTD(1)),
    SeverityNumber UInt8,
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    Body String CODEC(ZSTD(1)),
    ResourceSchemaUrl LowCardinality(String) CODEC(ZSTD(1)),
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeSchemaUrl LowCardinality(String) CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion LowCardinality(String) CODEC(ZSTD(1)),
    ScopeAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    LogAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    EventName String CODEC(ZSTD(1)),
    ObservedTimestamp DateTime64(9) CODEC(Delta, ZSTD(1)),
    OriginalTimeUnixNano UInt64 COMMENT 'what was sent, where Timestamp cannot hold it; else 0' CODEC(ZSTD(1)),
    TenantId LowCardinality(String),
    SequenceNumber UInt64 COMMENT 'of the request the record came with' CODEC(DoubleDelta, ZSTD(1)),
    IngestedAt DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX by_trace TraceId TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ${replicated}MergeTree($replica)
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, ServiceName, Timestamp)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS otel_logs AS otel_logs$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'otel_logs$local', cityHash64(TraceId));

-- A record without a time of its own has the time it was seen, or else arrived.
CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_to_otel_logs TO otel_logs AS
SELECT
    $log_time AS Timestamp,
    $log_trace_id AS TraceId,
    $log_span_id AS SpanId,
    toUInt8(bitAnd(r.flags, 255)) AS TraceFlags,
    r.severity_text AS SeverityText,
    toUInt8(least(greatest(r.severity_number, 0), 255)) AS SeverityNumber,
    maps[1]['service.name'] AS ServiceName,
    $log_body AS Body,
    rl.schema_url AS ResourceSchemaUrl,
    maps[1] AS ResourceAttributes,
    sl.schema_url AS ScopeSchemaUrl,
    sl.scope.name AS ScopeName,
    sl.scope.version AS ScopeVersion,
    maps[2] AS ScopeAttributes,
    maps[3] AS LogAttributes,
    r.event_name AS EventName,
    $log_observed_time AS ObservedTimestamp,
    if(sent_at > $max_unix_nano, sent_at, 0) AS OriginalTimeUnixNano,
    tenant AS TenantId,
    first_sequence_number AS SequenceNumber,
    fromUnixTimestamp64Nano(toInt64(received_unix_nano), 'UTC') AS IngestedAt
FROM
(
    SELECT
        tenant, first_sequence_number, received_unix_nano, rl, sl, r,
        multiIf(r.time_unix_nano != 0, r.time_unix_nano,
                r.observed_time_unix_nano != 0, r.observed_time_unix_nano,
                received_unix_nano) AS sent_at,
        $log_maps AS maps
    FROM otlp_logs_raw
    ARRAY JOIN request.resource_logs AS rl
    ARRAY JOIN rl.scope_logs AS sl
    ARRAY JOIN sl.log_records AS r
);
