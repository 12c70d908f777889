-- The traces with a span that meets every condition, the newest first. A span arrives after it began:
-- older partitions need not be read, less a day for clocks that run ahead. Conditions on tags are put in
-- one by one (`query/jaeger/tags.py`), so that no column is read that none of them is about.
SELECT TraceId, max(at) AS latest
FROM
(
    SELECT TraceId, toUnixTimestamp64Nano(Timestamp) AS at
    FROM whole_spans
    WHERE TenantId = {tenant:String}
      AND IngestedAt >= fromUnixTimestamp64Nano(greatest(0, {start:Int64} - 86400000000000))
      AND Timestamp >= fromUnixTimestamp64Nano({start:Int64})
      AND Timestamp <= fromUnixTimestamp64Nano({end:Int64})
      AND ({any_service:UInt8} OR ServiceName = {service:String})
      AND ({operation:String} = '' OR SpanName = {operation:String})
      AND Duration >= {min_duration:UInt64} AND Duration <= {max_duration:UInt64}
      AND $span_tags
    UNION ALL
    SELECT TraceId, toUnixTimestamp64Nano(Timestamp) AS at
    FROM untold_spans
    WHERE TenantId = {tenant:String}
      AND IngestedAt >= fromUnixTimestamp64Nano(greatest(0, {start:Int64} - 86400000000000))
      AND Timestamp >= fromUnixTimestamp64Nano({start:Int64})
      AND Timestamp <= fromUnixTimestamp64Nano({end:Int64})
      AND ({any_service:UInt8} OR ServiceName = {service:String})
      AND ({operation:String} = '' OR SpanName = {operation:String})
      AND Duration >= {min_duration:UInt64} AND Duration <= {max_duration:UInt64}
      -- How long one takes that has only begun, nobody knows.
      AND (State = 'closed' OR NOT {by_duration:UInt8})
      AND $event_tags
)
GROUP BY TraceId
ORDER BY latest DESC, TraceId
LIMIT {limit:UInt32}
