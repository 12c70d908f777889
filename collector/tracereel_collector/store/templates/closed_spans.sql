(
    SELECT
        fromUnixTimestamp64Nano(span_began) AS Timestamp,
        otel_trace_id AS TraceId,
        span_id AS SpanId,
        parent_span_id AS ParentSpanId,
        '' AS TraceState,
        span_name AS SpanName,
        toLowCardinality(if(event_type = 'agent.llm.called', 'Client', 'Internal')) AS SpanKind,
        service AS ServiceName,
        CAST(map('service.name', service) AS Map(LowCardinality(String), String)) AS ResourceAttributes,
        'tracereel' AS ScopeName,
        '' AS ScopeVersion,
        $attributes AS SpanAttributes,
        toUInt64(greatest(span_ended - span_began, 0)) AS Duration,
        toLowCardinality(if(status = 'failed', 'Error', 'Unset')) AS StatusCode,
        if(status = 'failed', concat(error_type, if(t.error_message = '', '', ': '), t.error_message), '')
            AS StatusMessage,
        if(status = 'failed', [fromUnixTimestamp64Nano(span_ended)], []) AS `Events.Timestamp`,
        if(status = 'failed', [toLowCardinality('exception')], []) AS `Events.Name`,
        if(status = 'failed', [CAST(mapFilter((k, v) -> v != '', map(
            'exception.type', toString(error_type), 'exception.message', t.error_message,
            'exception.stacktrace', t.stack_trace)) AS Map(LowCardinality(String), String))], []) AS `Events.Attributes`,
        emptyArrayString() AS `Links.TraceId`,
        emptyArrayString() AS `Links.SpanId`,
        emptyArrayString() AS `Links.TraceState`,
        CAST([] AS Array(Map(LowCardinality(String), String))) AS `Links.Attributes`,
        tenant AS TenantId,
        sequence_number AS SequenceNumber,
        toUInt64(0) AS Position,
        ingested_at AS IngestedAt,
        toLowCardinality('event') AS Source,
        CAST(map() AS Map(LowCardinality(String), UInt8)) AS AttributeTypes,
        payload AS Told,
        $said
    FROM
    (
        SELECT *, $attribute_pairs AS pairs
        FROM
        (
            SELECT
                tenant, sequence_number, ingested_at, event_type, otel_trace_id, span_id, parent_span_id,
                service, error_type, status, payload, span_name, span_began, span_ended,
                JSONExtract(payload, 'Tuple($types)') AS t,
                $fields AS fields
            FROM agent_events
            WHERE $closes
        )
    )
)
