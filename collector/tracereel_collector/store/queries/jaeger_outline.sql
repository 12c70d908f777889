-- Spans of some traces with the columns that a list needs.
SELECT TraceId, SpanId, ParentSpanId, ServiceName, SpanName, began, took, failed
FROM
(
    SELECT * FROM
    (
        SELECT TraceId, SpanId, ParentSpanId, ServiceName, SpanName, toUnixTimestamp64Nano(Timestamp) AS began,
               Duration AS took, StatusCode = 'Error' AS failed, if(Source = 'otlp', 0, 1) AS rank, SequenceNumber
        FROM whole_spans
        WHERE TenantId = {tenant:String} AND TraceId IN {traces:Array(String)}
        UNION ALL
        SELECT TraceId, SpanId, ParentSpanId, ServiceName, SpanName, toUnixTimestamp64Nano(Timestamp),
               Duration, StatusCode = 'Error', if(State = 'closed', 2, 3), SequenceNumber
        FROM untold_spans
        WHERE TenantId = {tenant:String} AND TraceId IN {traces:Array(String)}
    )
    ORDER BY rank, SequenceNumber
    LIMIT 1 BY TraceId, SpanId
)
ORDER BY TraceId, began, SpanId
LIMIT {limit:UInt32}
