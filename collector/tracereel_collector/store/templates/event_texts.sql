SELECT
    tenant,
    toStartOfHour($moment) AS hour,
    trace_id,
    toDate(ingested_at) AS day,
    arrayStringConcat(groupArray(piece), '\n') AS text
FROM
(
    SELECT tenant, timestamp, trace_id, ingested_at,
        left(concatWithSeparator('\n', $fields), $max_text)
            AS piece
    FROM
    (
        SELECT tenant, timestamp, trace_id, ingested_at,
            JSONExtract(payload, 'Tuple($field_types)') AS said
        FROM agent_events$local
    )
)
WHERE length(piece) >= $field_count
GROUP BY tenant, hour, trace_id, day
