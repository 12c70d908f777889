SELECT
    tenant,
    toStartOfHour($moment) AS hour,
    trace_id,
    toDate(ingested_at) AS day,
    arrayStringConcat(groupArray(piece), '\n') AS text
FROM
(
    SELECT tenant, timestamp, trace_id, ingested_at,
        arrayStringConcat(arrayMap(v -> $readable, [
            -- Earlier messages were indexed with the calls that brought them.
            left(concat('[', arrayStringConcat(
                arraySlice(asked, 1 + arrayLastIndex(m -> $is_answer, asked)), '\n')), $max_text),
            left(said.input_messages, $max_beginning),
            -- A state may hold the whole history too: the last question is at its end.
            concatWithSeparator('\n', left(said.input, $max_beginning),
                if(length(said.input) > $max_beginning, right(said.input, $max_beginning), '')),
            $fields]), '\n') AS piece
    FROM
    (
        SELECT tenant, timestamp, trace_id, ingested_at,
            JSONExtract(content, 'Tuple($field_types)') AS said,
            JSONExtractArrayRaw(said.input_messages) AS asked
        FROM event_content$local
    )
)
GROUP BY tenant, hour, trace_id, day
