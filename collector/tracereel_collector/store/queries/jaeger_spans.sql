-- Spans of some traces, deduplicated: from the sender's exporter, else from a single complete event,
-- else derived from several events.
SELECT * EXCEPT (SequenceNumber)
FROM
(
    SELECT * FROM
    (
        SELECT
            TraceId, SpanId, ParentSpanId, TraceState, SpanName, SpanKind, ServiceName, ResourceAttributes,
            ScopeName, ScopeVersion, SpanAttributes, toUnixTimestamp64Nano(Timestamp) AS began, Duration,
            StatusCode, StatusMessage,
            arrayZip(arrayMap(t -> toUnixTimestamp64Nano(t), `Events.Timestamp`), `Events.Name`, `Events.Attributes`)
                AS events,
            arrayZip(`Links.TraceId`, `Links.SpanId`, `Links.TraceState`, `Links.Attributes`) AS links,
            AttributeTypes, if(Source = 'otlp', 0, 1) AS rank, '' AS EmitterId, SequenceNumber
        FROM whole_spans
        WHERE TenantId = {tenant:String} AND TraceId IN {traces:Array(String)}
        UNION ALL
        SELECT
            TraceId, SpanId, ParentSpanId, '', SpanName, SpanKind, ServiceName,
            CAST(map('service.name', ServiceName) AS Map(LowCardinality(String), String)),
            'tracereel', '', SpanAttributes, toUnixTimestamp64Nano(Timestamp), Duration,
            StatusCode, StatusMessage,
            [], [],
            CAST(map() AS Map(LowCardinality(String), UInt8)), if(State = 'closed', 2, 3), EmitterId, SequenceNumber
        FROM untold_spans
        WHERE TenantId = {tenant:String} AND TraceId IN {traces:Array(String)}
    )
    ORDER BY rank, SequenceNumber
    LIMIT 1 BY TraceId, SpanId
)
ORDER BY TraceId, began, SpanId
LIMIT {limit:UInt32}
