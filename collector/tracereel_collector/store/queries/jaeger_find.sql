-- Traces with a span that matches all conditions, newest first. A span arrives after its start, so older
-- partitions are skipped, with a day of tolerance for clocks that run ahead. Conditions on tags are
-- inserted one by one (`query/jaeger/tags.py`), so that only the columns they need are read.
-- Numbers of nanoseconds are compared, not times: a cluster sends a time before 1973 to its shards in a form that
-- they cannot read.
SELECT TraceId, max(at) AS latest
FROM
(
    SELECT TraceId, toUnixTimestamp64Nano(Timestamp) AS at
    FROM whole_spans
    WHERE TenantId = {tenant:String}
      AND ({start:Int64} < 100000000000000000
           OR IngestedAt >= fromUnixTimestamp64Nano(greatest(100000000000000000, {start:Int64} - 86400000000000)))
      AND toUnixTimestamp64Nano(Timestamp) BETWEEN {start:Int64} AND {end:Int64}
      AND ({any_service:UInt8} OR ServiceName = {service:String})
      AND ({operation:String} = '' OR SpanName = {operation:String})
      AND Duration >= {min_duration:UInt64} AND Duration <= {max_duration:UInt64}
      AND $span_tags
    UNION ALL
    SELECT TraceId, toUnixTimestamp64Nano(Timestamp) AS at
    FROM untold_spans
    WHERE TenantId = {tenant:String}
      AND ({start:Int64} < 100000000000000000
           OR IngestedAt >= fromUnixTimestamp64Nano(greatest(100000000000000000, {start:Int64} - 86400000000000)))
      AND toUnixTimestamp64Nano(Timestamp) BETWEEN {start:Int64} AND {end:Int64}
      AND ({any_service:UInt8} OR ServiceName = {service:String})
      AND ({operation:String} = '' OR SpanName = {operation:String})
      AND Duration >= {min_duration:UInt64} AND Duration <= {max_duration:UInt64}
      -- The duration of an open span is unknown.
      AND (State = 'closed' OR NOT {by_duration:UInt8})
      AND $event_tags
)
GROUP BY TraceId
ORDER BY latest DESC, TraceId
LIMIT {limit:UInt32}
