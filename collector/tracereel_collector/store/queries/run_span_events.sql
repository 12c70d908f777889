-- Events that programs added to spans of some traces, by time, deduplicated. The SDK's own marks are left
-- out, since they are events of the run; the attribute by which each is known is one that it always has.
SELECT TraceId, SpanId, number, at, name, attributes, AttributeTypes, SequenceNumber, ingested
FROM
(
    SELECT
        TraceId, SpanId, SequenceNumber, ScopeName, AttributeTypes,
        formatDateTime(IngestedAt, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
        arrayMap(t -> greatest(toUnixTimestamp64Nano(t), 0), `Events.Timestamp`) AS times,
        `Events.Name` AS names,
        `Events.Attributes` AS maps
    FROM otel_spans
    WHERE TenantId = {tenant:String} AND TraceId IN {trace_ids:Array(String)} AND Source = 'otlp'
        AND ({only_span:String} = '' OR SpanId = {only_span:String})
        AND notEmpty(`Events.Name`)
    ORDER BY TraceId, SpanId, Timestamp, SequenceNumber
    LIMIT 1 BY TraceId, SpanId
)
ARRAY JOIN times AS at, names AS name, maps AS attributes, arrayEnumerate(names) AS number
WHERE (toUInt64(at), SpanId, number) > ({after_position:UInt64}, {after_span:String}, {after_index:UInt32})
    AND NOT (ScopeName = 'tracereel' AND mapContains(attributes, transform(toString(name),
        ['decision_recorded', 'retry_attempted', 'fallback_triggered'], ['decision_id', 'reason', 'primary_agent'], '')))
ORDER BY at, SpanId, number
LIMIT {limit:UInt32}
