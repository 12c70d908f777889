-- Messages that instrumentations send as log records of a span.
SELECT
    TenantId AS tenant,
    toStartOfHour($moment) AS hour,
    TraceId AS trace_id,
    toDate(IngestedAt) AS day,
    arrayStringConcat(groupUniqArray(piece), '\n') AS text
FROM
(
    SELECT TenantId, Timestamp, TraceId, IngestedAt,
        arrayStringConcat(arrayMap(v -> $readable, arrayMap(v -> $shortened, arrayMap(v -> $decoded,
            arrayConcat([Body], mapValues(mapFilter((k, v) -> k IN $names, LogAttributes)))))), '\n') AS piece
    FROM otel_logs$local
    WHERE TraceId != '' AND startsWith(if(EventName = '', LogAttributes['event.name'], EventName), 'gen_ai.')
)
WHERE piece != ''
GROUP BY tenant, hour, trace_id, day
