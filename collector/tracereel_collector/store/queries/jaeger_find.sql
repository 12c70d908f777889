-- The traces with a span that meets every condition, the newest first. A span arrives after it began:
-- older partitions need not be read, less a day for clocks that run ahead. Attributes that are made of an
-- event are made of those only that have the plain ones of the values in them.
WITH
    arrayFilter((v, k) -> match(v, '^[A-Za-z0-9_.: -]+$') AND k NOT IN
        ('error', 'span.kind', 'service.name', 'gen_ai.operation.name')
        AND NOT startsWith(k, 'otel.') AND NOT startsWith(k, 'exception.'),
        {tag_values:Array(String)}, {tag_keys:Array(String)}) AS written
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
      AND (Told = '' OR arrayAll(v -> position(Told, v) > 0, written))
      AND (empty({tag_keys:Array(String)}) OR arrayAll((k, v) -> multiIf(
            k = 'error' AND v = 'true' AND StatusCode = 'Error', true,
            k = 'span.kind' AND v = lower(SpanKind), true,
            k = 'otel.status_code' AND v = upper(StatusCode), true,
            k = 'otel.status_description' AND v = StatusMessage, true,
            k IN ('otel.scope.name', 'otel.library.name') AND v = ScopeName, true,
            k IN ('otel.scope.version', 'otel.library.version') AND v = ScopeVersion, true,
            k = 'w3c.tracestate' AND v = TraceState, true,
            (mapContains(SpanAttributes, k) AND SpanAttributes[k] = v)
            OR (mapContains(ResourceAttributes, k) AND ResourceAttributes[k] = v)
            OR arrayExists(m -> mapContains(m, k) AND m[k] = v, `Events.Attributes`)),
          {tag_keys:Array(String)}, {tag_values:Array(String)}))
    UNION ALL
    SELECT TraceId, toUnixTimestamp64Nano(Timestamp) AS at
    FROM event_spans
    WHERE TenantId = {tenant:String}
      AND IngestedAt >= fromUnixTimestamp64Nano(greatest(0, {start:Int64} - 86400000000000))
      AND Timestamp >= fromUnixTimestamp64Nano({start:Int64})
      AND Timestamp <= fromUnixTimestamp64Nano({end:Int64})
      AND ({any_service:UInt8} OR ServiceName = {service:String})
      AND ({operation:String} = '' OR SpanName = {operation:String})
      AND Duration >= {min_duration:UInt64} AND Duration <= {max_duration:UInt64}
      -- How long one takes that has only begun, nobody knows.
      AND (State = 'closed' OR NOT {by_duration:UInt8})
      AND arrayAll(v -> position(Told, v) > 0, written)
      AND (empty({tag_keys:Array(String)}) OR arrayAll((k, v) -> multiIf(
            k = 'error' AND v = 'true' AND StatusCode = 'Error', true,
            k = 'span.kind' AND v = lower(SpanKind), true,
            k = 'otel.status_code' AND v = upper(StatusCode), true,
            k = 'otel.status_description' AND v = StatusMessage, true,
            k = 'service.name' AND v = ServiceName, true,
            mapContains(SpanAttributes, k) AND SpanAttributes[k] = v),
          {tag_keys:Array(String)}, {tag_values:Array(String)}))
)
GROUP BY TraceId
ORDER BY latest DESC, TraceId
LIMIT {limit:UInt32}
