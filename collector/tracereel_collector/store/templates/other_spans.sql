SELECT
    tenant AS TenantId,
    otel_trace_id AS TraceId,
    if(span_id != '', span_id, left(lower(hex(SHA256(concat(trace_id, '/', key)))), 16)) AS SpanId,
    multiIf(span_id != '' OR parent_span_id != '', parent_span_id, key = 'pipeline', '',
            left(lower(hex(SHA256(concat(trace_id, '/', 'pipeline')))), 16)) AS ParentSpanId,
    fromUnixTimestamp64Nano(toUnixTimestamp64Nano(timestamp) - toInt64(took)) AS Timestamp,
    took AS Duration,
    span_name AS SpanName,
    if(event_type = 'agent.llm.called', 'Client', 'Internal') AS SpanKind,
    service AS ServiceName,
    $attributes AS SpanAttributes,
    if(failed, 'Error', 'Unset') AS StatusCode,
    if(failed, concat(error_type, if(error_message = '', '', ': '), error_message), '') AS StatusMessage,
    if(is_open, 'open', 'closed') AS State,
    emitter_id AS EmitterId,
    sequence_number AS SequenceNumber,
    ingested_at AS IngestedAt,
    payload AS Told
FROM
(
    SELECT
        tenant, otel_trace_id, trace_id, span_id, parent_span_id, timestamp, event_type, service,
        emitter_id, sequence_number, ingested_at, error_type, payload, span_name,
        $fields AS fields,
        $attribute_pairs AS pairs,
        multiIf(
            has($pipelines, event_type), 'pipeline',
            NOT has($executions, event_type), event_id,
            execution_id != '', execution_id,
            concat(request_id, '/', agent_name)) AS key,
        has($opening, event_type) AS is_open,
        if(is_open, 0, least(ifNull(duration_ms, 0), 31536000000) * 1000000) AS took,
        status = 'failed' AS failed,
        JSONExtractString(payload, 'error_message') AS error_message
    FROM agent_events
    WHERE event_type IN $types
        AND (event_type IN $opening OR span_id = '' OR span_began = 0)
)
