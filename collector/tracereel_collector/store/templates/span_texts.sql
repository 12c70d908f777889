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
            -- Earlier messages were indexed with the calls that brought them: of a long list the
            -- beginning and what is behind the last answer, or else the end.
            arrayMap(v -> $readable, arrayMap(
                (v, list, new) -> multiIf(
                    empty(list), $shortened,
                    empty(new), concatWithSeparator('\n', left(v, $max_beginning), right(v, $max_beginning)),
                    concatWithSeparator('\n', left(v, $max_beginning),
                        left(arrayStringConcat(new, '\n'), $max_new))),
                texts, lists,
                arrayMap(list -> arraySlice(list, 1 + arrayLastIndex(m -> $is_answer, list)), lists))),
            -- The same of messages with an attribute for each field.
            if(empty(spread), [said], [left(said, $max_beginning), arrayStringConcat(arraySlice(spread.2,
                1 + arrayLastIndex(p -> endsWith(p.1, 'role') AND p.2 IN $answer_roles, spread)), '\n')]),
            arrayMap(v -> $readable, arrayMap(v -> $decoded, arrayFlatten(arrayMap(
                a -> mapValues(mapFilter((k, v) -> k IN $event_names AND v != '', a)), `Events.Attributes`)))))),
            '\n') AS piece
    FROM
    (
        SELECT *,
            arrayConcat(mapKeys(SpanAttributes), mapKeys(ContentAttributes)) AS names,
            arrayConcat(mapValues(SpanAttributes), mapValues(ContentAttributes)) AS found,
            arrayMap(v -> $decoded, arrayFilter((v, k) -> k IN $names OR $families, found, names)) AS texts,
            arrayMap(v -> JSONExtractArrayRaw(multiIf(length(v) <= 2 * $max_beginning, '',
                startsWith(v, '{'), JSONExtractRaw(v, 'messages'), v)), texts) AS lists,
            arrayMap(p -> (p.1, $readable_message),
                arrayFilter((p, k) -> $histories, arrayZip(names, found), names)) AS messages,
            arrayStringConcat(messages.2, '\n') AS said,
            if(length(said) <= 2 * $max_beginning, [],
                arraySort(p -> (toUInt32OrZero(extract(p.1, '[0-9]+')), p.1), messages)) AS spread
        FROM otel_spans$local
        WHERE Source = 'otlp' AND (CallKind != '' OR StatusMessage != '' OR notEmpty(`Events.Name`))
    )
)
WHERE piece != ''
GROUP BY tenant, hour, trace_id, day
