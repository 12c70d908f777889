-- Which service calls which, by spans whose parent is another service's. Traces of one service only,
-- which most are, are left out before spans are joined.
WITH mixed AS
(
    SELECT TraceId
    FROM whole_spans
    WHERE TenantId = {tenant:String}
      AND IngestedAt >= fromUnixTimestamp64Nano(greatest(0, {start:Int64} - 86400000000000))
      AND Timestamp >= fromUnixTimestamp64Nano({start:Int64})
      AND Timestamp <= fromUnixTimestamp64Nano({end:Int64})
    GROUP BY TraceId
    HAVING min(ServiceName) != max(ServiceName)
    LIMIT {traces:UInt32}
)
SELECT
    if(p.ServiceName = '', {nameless:String}, p.ServiceName) AS parent,
    if(c.ServiceName = '', {nameless:String}, c.ServiceName) AS child,
    uniqExact(c.TraceId, c.SpanId) AS calls
FROM
(
    SELECT TraceId, SpanId, ParentSpanId, ServiceName
    FROM whole_spans
    WHERE TenantId = {tenant:String} AND TraceId IN mixed AND ParentSpanId != ''
      AND Timestamp >= fromUnixTimestamp64Nano({start:Int64})
      AND Timestamp <= fromUnixTimestamp64Nano({end:Int64})
) AS c
INNER JOIN
(
    SELECT TraceId, SpanId, ServiceName
    FROM whole_spans
    WHERE TenantId = {tenant:String} AND TraceId IN mixed
) AS p ON p.TraceId = c.TraceId AND p.SpanId = c.ParentSpanId
WHERE p.ServiceName != c.ServiceName
GROUP BY parent, child
ORDER BY parent, child
LIMIT {limit:UInt32}
SETTINGS optimize_aggregation_in_order = 1
