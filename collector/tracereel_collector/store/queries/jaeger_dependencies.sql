-- Calls between services, from spans whose parent belongs to another service. One pass over the spans in
-- storage order, trace by trace. Most traces have a single service and are skipped early.
-- A parent may have started up to ten minutes before the window. The spans read per trace are limited.
-- Numbers of nanoseconds are compared, not times: a cluster sends a time before 1973 to its shards in a form that
-- they cannot read.
SELECT
    if(called_by = '', {nameless:String}, called_by) AS parent,
    if(called = '', {nameless:String}, called) AS child,
    uniqExact(TraceId, id) AS calls
FROM
(
    SELECT
        TraceId,
        -- Hashes, because their arrays are fast to search.
        groupArray({spans:UInt32})(cityHash64(SpanId)) AS ids,
        groupArray({spans:UInt32})(
            if(ParentSpanId = '' OR toUnixTimestamp64Nano(Timestamp) < {start:Int64}, 0, cityHash64(ParentSpanId))
        ) AS parents,
        groupArray({spans:UInt32})(ServiceName) AS services
    FROM whole_spans
    WHERE TenantId = {tenant:String}
      AND ({start:Int64} < 100000000000000000
           OR IngestedAt >= fromUnixTimestamp64Nano(greatest(100000000000000000, {start:Int64} - 86400000000000)))
      AND toUnixTimestamp64Nano(Timestamp) BETWEEN {start:Int64} - 600000000000 AND {end:Int64}
    GROUP BY TraceId
    HAVING min(ServiceName) != max(ServiceName)
    LIMIT {traces:UInt32}
)
ARRAY JOIN
    ids AS id,
    services AS called,
    arrayMap(up -> if(up = 0, '', services[indexOf(ids, up)]), parents) AS called_by,
    arrayMap(up -> up != 0 AND has(ids, up), parents) AS known
WHERE known AND called_by != called
GROUP BY parent, child
ORDER BY parent, child
LIMIT {limit:UInt32}
SETTINGS optimize_aggregation_in_order = 1
