-- OTLP metric requests as they came, one row each; the view behind it decodes them.
CREATE TABLE IF NOT EXISTS otlp_metrics_raw
(
    tenant String,
    first_sequence_number UInt64,
    received_unix_nano UInt64,
    request $otlp_metrics_type
)
ENGINE = Null;

-- Points of every type in one shape, on their way to the table of their type. Decoding is written once:
-- analysing it for each of five views would cost most of a second for every insert.
CREATE TABLE IF NOT EXISTS otlp_points_in
(
    type LowCardinality(String),
    ResourceAttributes Map(LowCardinality(String), String),
    ResourceSchemaUrl String,
    ScopeName String,
    ScopeVersion String,
    ScopeAttributes Map(LowCardinality(String), String),
    ScopeDroppedAttrCount UInt32,
    ScopeSchemaUrl String,
    ServiceName LowCardinality(String),
    MetricName LowCardinality(String),
    MetricDescription String,
    MetricUnit String,
    Attributes Map(LowCardinality(String), String),
    StartTimeUnix DateTime64(9),
    TimeUnix DateTime64(9),
    Flags UInt32,
    `Exemplars.FilteredAttributes` Array(Map(LowCardinality(String), String)),
    `Exemplars.TimeUnix` Array(DateTime64(9)),
    `Exemplars.Value` Array(Float64),
    `Exemplars.SpanId` Array(String),
    `Exemplars.TraceId` Array(String),
    Value Float64,
    IntValue Nullable(Int64),
    Count UInt64,
    Sum Float64,
    Min Float64,
    Max Float64,
    HasSum Bool,
    HasMin Bool,
    HasMax Bool,
    BucketCounts Array(UInt64),
    ExplicitBounds Array(Float64),
    Scale Int32,
    ZeroCount UInt64,
    ZeroThreshold Float64,
    PositiveOffset Int32,
    PositiveBucketCounts Array(UInt64),
    NegativeOffset Int32,
    NegativeBucketCounts Array(UInt64),
    `ValueAtQuantiles.Quantile` Array(Float64),
    `ValueAtQuantiles.Value` Array(Float64),
    AggregationTemporality Int32,
    IsMonotonic Bool,
    OriginalTimeUnixNano UInt64,
    OriginalStartTimeUnixNano UInt64,
    TenantId LowCardinality(String),
    SequenceNumber UInt64,
    IngestedAt DateTime64(9, 'UTC')
)
ENGINE = Null;

-- The columns of the OpenTelemetry clickhouseexporter, and ours behind them; times to the nanosecond.
CREATE TABLE IF NOT EXISTS otel_metrics_gauge$local
(
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ResourceSchemaUrl String CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion String CODEC(ZSTD(1)),
    ScopeAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeDroppedAttrCount UInt32 CODEC(ZSTD(1)),
    ScopeSchemaUrl String CODEC(ZSTD(1)),
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    MetricName LowCardinality(String) CODEC(ZSTD(1)),
    MetricDescription String CODEC(ZSTD(1)),
    MetricUnit String CODEC(ZSTD(1)),
    Attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    StartTimeUnix DateTime64(9) CODEC(Delta, ZSTD(1)),
    TimeUnix DateTime64(9) CODEC(Delta, ZSTD(1)),
    Value Float64 CODEC(ZSTD(1)),
    Flags UInt32 CODEC(ZSTD(1)),
    Exemplars Nested
    (
        FilteredAttributes Map(LowCardinality(String), String),
        TimeUnix DateTime64(9),
        Value Float64,
        SpanId String,
        TraceId String
    ) CODEC(ZSTD(1)),
    IntValue Nullable(Int64) COMMENT 'the value where it was sent as an integer' CODEC(ZSTD(1)),
    OriginalTimeUnixNano UInt64 COMMENT 'what was sent, where TimeUnix cannot hold it; else 0' CODEC(ZSTD(1)),
    OriginalStartTimeUnixNano UInt64 CODEC(ZSTD(1)),
    TenantId LowCardinality(String),
    SequenceNumber UInt64 COMMENT 'of the request the point came with' CODEC(DoubleDelta, ZSTD(1)),
    IngestedAt DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = ${replicated}MergeTree($replica)
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, ServiceName, MetricName, cityHash64(Attributes), TimeUnix)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS otel_metrics_gauge AS otel_metrics_gauge$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'otel_metrics_gauge$local', cityHash64(TenantId, ServiceName, MetricName, cityHash64(Attributes)));

CREATE TABLE IF NOT EXISTS otel_metrics_sum$local
(
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ResourceSchemaUrl String CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion String CODEC(ZSTD(1)),
    ScopeAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeDroppedAttrCount UInt32 CODEC(ZSTD(1)),
    ScopeSchemaUrl String CODEC(ZSTD(1)),
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    MetricName LowCardinality(String) CODEC(ZSTD(1)),
    MetricDescription String CODEC(ZSTD(1)),
    MetricUnit String CODEC(ZSTD(1)),
    Attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    StartTimeUnix DateTime64(9) CODEC(Delta, ZSTD(1)),
    TimeUnix DateTime64(9) CODEC(Delta, ZSTD(1)),
    Value Float64 CODEC(ZSTD(1)),
    Flags UInt32 CODEC(ZSTD(1)),
    Exemplars Nested
    (
        FilteredAttributes Map(LowCardinality(String), String),
        TimeUnix DateTime64(9),
        Value Float64,
        SpanId String,
        TraceId String
    ) CODEC(ZSTD(1)),
    AggregationTemporality Int32 CODEC(ZSTD(1)),
    IsMonotonic Boolean CODEC(ZSTD(1)),
    IntValue Nullable(Int64) COMMENT 'the value where it was sent as an integer' CODEC(ZSTD(1)),
    OriginalTimeUnixNano UInt64 COMMENT 'what was sent, where TimeUnix cannot hold it; else 0' CODEC(ZSTD(1)),
    OriginalStartTimeUnixNano UInt64 CODEC(ZSTD(1)),
    TenantId LowCardinality(String),
    SequenceNumber UInt64 COMMENT 'of the request the point came with' CODEC(DoubleDelta, ZSTD(1)),
    IngestedAt DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = ${replicated}MergeTree($replica)
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, ServiceName, MetricName, cityHash64(Attributes), TimeUnix)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS otel_metrics_sum AS otel_metrics_sum$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'otel_metrics_sum$local', cityHash64(TenantId, ServiceName, MetricName, cityHash64(Attributes)));

CREATE TABLE IF NOT EXISTS otel_metrics_histogram$local
(
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ResourceSchemaUrl String CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion String CODEC(ZSTD(1)),
    ScopeAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeDroppedAttrCount UInt32 CODEC(ZSTD(1)),
    ScopeSchemaUrl String CODEC(ZSTD(1)),
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    MetricName LowCardinality(String) CODEC(ZSTD(1)),
    MetricDescription String CODEC(ZSTD(1)),
    MetricUnit String CODEC(ZSTD(1)),
    Attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    StartTimeUnix DateTime64(9) CODEC(Delta, ZSTD(1)),
    TimeUnix DateTime64(9) CODEC(Delta, ZSTD(1)),
    Count UInt64 CODEC(Delta, ZSTD(1)),
    Sum Float64 CODEC(ZSTD(1)),
    BucketCounts Array(UInt64) CODEC(ZSTD(1)),
    ExplicitBounds Array(Float64) CODEC(ZSTD(1)),
    Exemplars Nested
    (
        FilteredAttributes Map(LowCardinality(String), String),
        TimeUnix DateTime64(9),
        Value Float64,
        SpanId String,
        TraceId String
    ) CODEC(ZSTD(1)),
    Flags UInt32 CODEC(ZSTD(1)),
    Min Float64 CODEC(ZSTD(1)),
    Max Float64 CODEC(ZSTD(1)),
    AggregationTemporality Int32 CODEC(ZSTD(1)),
    HasSum Bool,
    HasMin Bool,
    HasMax Bool,
    OriginalTimeUnixNano UInt64 COMMENT 'what was sent, where TimeUnix cannot hold it; else 0' CODEC(ZSTD(1)),
    OriginalStartTimeUnixNano UInt64 CODEC(ZSTD(1)),
    TenantId LowCardinality(String),
    SequenceNumber UInt64 COMMENT 'of the request the point came with' CODEC(DoubleDelta, ZSTD(1)),
    IngestedAt DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = ${replicated}MergeTree($replica)
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, ServiceName, MetricName, cityHash64(Attributes), TimeUnix)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS otel_metrics_histogram AS otel_metrics_histogram$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'otel_metrics_histogram$local', cityHash64(TenantId, ServiceName, MetricName, cityHash64(Attributes)));

CREATE TABLE IF NOT EXISTS otel_metrics_exponential_histogram$local
(
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ResourceSchemaUrl String CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion String CODEC(ZSTD(1)),
    ScopeAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeDroppedAttrCount UInt32 CODEC(ZSTD(1)),
    ScopeSchemaUrl String CODEC(ZSTD(1)),
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    MetricName LowCardinality(String) CODEC(ZSTD(1)),
    MetricDescription String CODEC(ZSTD(1)),
    MetricUnit String CODEC(ZSTD(1)),
    Attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    StartTimeUnix DateTime64(9) CODEC(Delta, ZSTD(1)),
    TimeUnix DateTime64(9) CODEC(Delta, ZSTD(1)),
    Count UInt64 CODEC(Delta, ZSTD(1)),
    Sum Float64 CODEC(ZSTD(1)),
    Scale Int32 CODEC(ZSTD(1)),
    ZeroCount UInt64 CODEC(ZSTD(1)),
    PositiveOffset Int32 CODEC(ZSTD(1)),
    PositiveBucketCounts Array(UInt64) CODEC(ZSTD(1)),
    NegativeOffset Int32 CODEC(ZSTD(1)),
    NegativeBucketCounts Array(UInt64) CODEC(ZSTD(1)),
    Exemplars Nested
    (
        FilteredAttributes Map(LowCardinality(String), String),
        TimeUnix DateTime64(9),
        Value Float64,
        SpanId String,
        TraceId String
    ) CODEC(ZSTD(1)),
    Flags UInt32 CODEC(ZSTD(1)),
    Min Float64 CODEC(ZSTD(1)),
    Max Float64 CODEC(ZSTD(1)),
    AggregationTemporality Int32 CODEC(ZSTD(1)),
    ZeroThreshold Float64 CODEC(ZSTD(1)),
    HasSum Bool,
    HasMin Bool,
    HasMax Bool,
    OriginalTimeUnixNano UInt64 COMMENT 'what was sent, where TimeUnix cannot hold it; else 0' CODEC(ZSTD(1)),
    OriginalStartTimeUnixNano UInt64 CODEC(ZSTD(1)),
    TenantId LowCardinality(String),
    SequenceNumber UInt64 COMMENT 'of the request the point came with' CODEC(DoubleDelta, ZSTD(1)),
    IngestedAt DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = ${replicated}MergeTree($replica)
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, ServiceName, MetricName, cityHash64(Attributes), TimeUnix)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS otel_metrics_exponential_histogram AS otel_metrics_exponential_histogram$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'otel_metrics_exponential_histogram$local', cityHash64(TenantId, ServiceName, MetricName, cityHash64(Attributes)));

CREATE TABLE IF NOT EXISTS otel_metrics_summary$local
(
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ResourceSchemaUrl String CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion String CODEC(ZSTD(1)),
    ScopeAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeDroppedAttrCount UInt32 CODEC(ZSTD(1)),
    ScopeSchemaUrl String CODEC(ZSTD(1)),
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    MetricName LowCardinality(String) CODEC(ZSTD(1)),
    MetricDescription String CODEC(ZSTD(1)),
    MetricUnit String CODEC(ZSTD(1)),
    Attributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    StartTimeUnix DateTime64(9) CODEC(Delta, ZSTD(1)),
    TimeUnix DateTime64(9) CODEC(Delta, ZSTD(1)),
    Count UInt64 CODEC(Delta, ZSTD(1)),
    Sum Float64 CODEC(ZSTD(1)),
    ValueAtQuantiles Nested
    (
        Quantile Float64,
        Value Float64
    ) CODEC(ZSTD(1)),
    Flags UInt32 CODEC(ZSTD(1)),
    OriginalTimeUnixNano UInt64 COMMENT 'what was sent, where TimeUnix cannot hold it; else 0' CODEC(ZSTD(1)),
    OriginalStartTimeUnixNano UInt64 CODEC(ZSTD(1)),
    TenantId LowCardinality(String),
    SequenceNumber UInt64 COMMENT 'of the request the point came with' CODEC(DoubleDelta, ZSTD(1)),
    IngestedAt DateTime64(9, 'UTC') CODEC(Delta, ZSTD(1))
)
ENGINE = ${replicated}MergeTree($replica)
PARTITION BY toDate(IngestedAt)
ORDER BY (TenantId, ServiceName, MetricName, cityHash64(Attributes), TimeUnix)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS otel_metrics_summary AS otel_metrics_summary$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'otel_metrics_summary$local', cityHash64(TenantId, ServiceName, MetricName, cityHash64(Attributes)));

CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_points_to_gauge TO otel_metrics_gauge AS
SELECT
    ResourceAttributes, ResourceSchemaUrl, ScopeName, ScopeVersion, ScopeAttributes,
    ScopeDroppedAttrCount, ScopeSchemaUrl, ServiceName, MetricName, MetricDescription, MetricUnit,
    Attributes, StartTimeUnix, TimeUnix, Value, Flags, `Exemplars.FilteredAttributes`,
    `Exemplars.TimeUnix`, `Exemplars.Value`, `Exemplars.SpanId`, `Exemplars.TraceId`, IntValue,
    OriginalTimeUnixNano, OriginalStartTimeUnixNano, TenantId, SequenceNumber, IngestedAt
FROM otlp_points_in
WHERE type = 'gauge';

CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_points_to_sum TO otel_metrics_sum AS
SELECT
    ResourceAttributes, ResourceSchemaUrl, ScopeName, ScopeVersion, ScopeAttributes,
    ScopeDroppedAttrCount, ScopeSchemaUrl, ServiceName, MetricName, MetricDescription, MetricUnit,
    Attributes, StartTimeUnix, TimeUnix, Value, Flags, `Exemplars.FilteredAttributes`,
    `Exemplars.TimeUnix`, `Exemplars.Value`, `Exemplars.SpanId`, `Exemplars.TraceId`,
    AggregationTemporality, IsMonotonic, IntValue, OriginalTimeUnixNano, OriginalStartTimeUnixNano,
    TenantId, SequenceNumber, IngestedAt
FROM otlp_points_in
WHERE type = 'sum';

CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_points_to_histogram TO otel_metrics_histogram AS
SELECT
    ResourceAttributes, ResourceSchemaUrl, ScopeName, ScopeVersion, ScopeAttributes,
    ScopeDroppedAttrCount, ScopeSchemaUrl, ServiceName, MetricName, MetricDescription, MetricUnit,
    Attributes, StartTimeUnix, TimeUnix, Count, Sum, BucketCounts, ExplicitBounds,
    `Exemplars.FilteredAttributes`, `Exemplars.TimeUnix`, `Exemplars.Value`, `Exemplars.SpanId`,
    `Exemplars.TraceId`, Flags, Min, Max, AggregationTemporality, HasSum, HasMin, HasMax,
    OriginalTimeUnixNano, OriginalStartTimeUnixNano, TenantId, SequenceNumber, IngestedAt
FROM otlp_points_in
WHERE type = 'histogram';

CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_points_to_exponential_histogram TO otel_metrics_exponential_histogram AS
SELECT
    ResourceAttributes, ResourceSchemaUrl, ScopeName, ScopeVersion, ScopeAttributes,
    ScopeDroppedAttrCount, ScopeSchemaUrl, ServiceName, MetricName, MetricDescription, MetricUnit,
    Attributes, StartTimeUnix, TimeUnix, Count, Sum, Scale, ZeroCount, PositiveOffset,
    PositiveBucketCounts, NegativeOffset, NegativeBucketCounts, `Exemplars.FilteredAttributes`,
    `Exemplars.TimeUnix`, `Exemplars.Value`, `Exemplars.SpanId`, `Exemplars.TraceId`, Flags, Min,
    Max, AggregationTemporality, ZeroThreshold, HasSum, HasMin, HasMax, OriginalTimeUnixNano,
    OriginalStartTimeUnixNano, TenantId, SequenceNumber, IngestedAt
FROM otlp_points_in
WHERE type = 'exponential_histogram';

CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_points_to_summary TO otel_metrics_summary AS
SELECT
    ResourceAttributes, ResourceSchemaUrl, ScopeName, ScopeVersion, ScopeAttributes,
    ScopeDroppedAttrCount, ScopeSchemaUrl, ServiceName, MetricName, MetricDescription, MetricUnit,
    Attributes, StartTimeUnix, TimeUnix, Count, Sum, `ValueAtQuantiles.Quantile`,
    `ValueAtQuantiles.Value`, Flags, OriginalTimeUnixNano, OriginalStartTimeUnixNano, TenantId,
    SequenceNumber, IngestedAt
FROM otlp_points_in
WHERE type = 'summary';

-- The last view, so that the tables behind it are there when the first request comes.
CREATE MATERIALIZED VIEW IF NOT EXISTS otlp_to_otlp_points TO otlp_points_in AS
SELECT
    type,
    maps[1] AS ResourceAttributes,
    resource_schema_url AS ResourceSchemaUrl,
    scope_name AS ScopeName,
    scope_version AS ScopeVersion,
    maps[2] AS ScopeAttributes,
    scope_dropped AS ScopeDroppedAttrCount,
    scope_schema_url AS ScopeSchemaUrl,
    maps[1]['service.name'] AS ServiceName,
    name AS MetricName,
    description AS MetricDescription,
    unit AS MetricUnit,
    maps[3] AS Attributes,
    $point_start AS StartTimeUnix,
    $point_time AS TimeUnix,
    flags AS Flags,
    arraySlice(maps, 4) AS `Exemplars.FilteredAttributes`,
    arrayMap(e -> $exemplar_time, exemplars) AS `Exemplars.TimeUnix`,
    arrayMap(e -> if(e.value = 'as_int', toFloat64(e.as_int), e.as_double), exemplars)
        AS `Exemplars.Value`,
    arrayMap(e -> $exemplar_span_id, exemplars) AS `Exemplars.SpanId`,
    arrayMap(e -> $exemplar_trace_id, exemplars) AS `Exemplars.TraceId`,
    if(is_int, toFloat64(as_int), as_double) AS Value,
    if(is_int, as_int, NULL) AS IntValue,
    count AS Count,
    sum AS Sum,
    min AS Min,
    max AS Max,
    has_sum AS HasSum,
    has_min AS HasMin,
    has_max AS HasMax,
    bucket_counts AS BucketCounts,
    explicit_bounds AS ExplicitBounds,
    scale AS Scale,
    zero_count AS ZeroCount,
    zero_threshold AS ZeroThreshold,
    positive.1 AS PositiveOffset,
    positive.2 AS PositiveBucketCounts,
    negative.1 AS NegativeOffset,
    negative.2 AS NegativeBucketCounts,
    quantiles AS `ValueAtQuantiles.Quantile`,
    quantile_values AS `ValueAtQuantiles.Value`,
    temporality AS AggregationTemporality,
    is_monotonic AS IsMonotonic,
    if(time > $max_unix_nano, time, 0) AS OriginalTimeUnixNano,
    if(start > $max_unix_nano, start, 0) AS OriginalStartTimeUnixNano,
    tenant AS TenantId,
    first_sequence_number AS SequenceNumber,
    fromUnixTimestamp64Nano(toInt64(received_unix_nano), 'UTC') AS IngestedAt
FROM
(
    SELECT *, $point_maps AS maps
    FROM
    (
        SELECT * EXCEPT points, $point_fields
        FROM
        (
            SELECT
                tenant,
                first_sequence_number,
                received_unix_nano,
                rm.resource.attributes AS resource_attributes,
                rm.schema_url AS resource_schema_url,
                sm.scope.attributes AS scope_attributes,
                sm.scope.name AS scope_name,
                sm.scope.version AS scope_version,
                sm.scope.dropped_attributes_count AS scope_dropped,
                sm.schema_url AS scope_schema_url,
                m.name AS name,
                m.description AS description,
                m.unit AS unit,
                $points_of_metric AS points
            FROM otlp_metrics_raw
            ARRAY JOIN request.resource_metrics AS rm
            ARRAY JOIN rm.scope_metrics AS sm
            ARRAY JOIN sm.metrics AS m
        )
        ARRAY JOIN points AS point
    )
);
