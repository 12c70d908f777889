SELECT
    TenantId AS tenant,
    toStartOfHour($moment) AS hour,
    TraceId AS trace_id,
    toDate(IngestedAt) AS day,
    arrayStringConcat(groupArray(piece), '\n') AS text
FROM
(
    SELECT TenantId, Timestamp, TraceId, IngestedAt,
        arrayStringConcat(arrayMap(t -> left(t, $max_text), arrayConcat(
            if(StatusMessage = '', [], [StatusMessage]),
            arrayFilter(
                (v, k) -> k IN $names OR $families,
                arrayConcat(mapValues(SpanAttributes), mapValues(ContentAttributes)),
                arrayConcat(mapKeys(SpanAttributes), mapKeys(ContentAttributes))),
            arrayFilter(v -> v != '', arrayMap(a -> a['exception.message'], `Events.Attributes`)),
            arrayFilter(v -> v != '', arrayMap(a -> a['content'], `Events.Attributes`)))), '\n') AS piece
    FROM otel_spans$local
    WHERE Source = 'otlp' AND (CallKind != '' OR StatusMessage != '' OR notEmpty(`Events.Name`))
)
WHERE piece != ''
GROUP BY tenant, hour, trace_id, day
