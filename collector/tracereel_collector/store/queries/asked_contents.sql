-- Spans with as much of their content as shows the last question and answer: of long lists the last elements, no other
-- long values, and nothing of spans that are still large then.
SELECT
    TraceId,
    SpanId,
    0 AS began,
    0 AS duration,
    CallKind,
    '' AS provider,
    '' AS model,
    NULL AS prompt_tokens,
    NULL AS completion_tokens,
    NULL AS total_tokens,
    NULL AS cache_read_tokens,
    NULL AS cache_write_tokens,
    NULL AS reasoning_tokens,
    '' AS tool_name,
    '' AS tool_call_id,
    '' AS finish_reason,
    NULL AS first_token_ms,
    if(byteSize(said) > {most:UInt32}, mapFilter((k, v) -> length(v) <= 256, said), said) AS attributes,
    CAST(map() AS Map(String, UInt8)) AS types,
    if(event_bytes > {most:UInt32}, [], `Events.Name`) AS names,
    if(event_bytes > {most:UInt32}, [], arrayMap(t -> 0, `Events.Timestamp`)) AS times,
    if(event_bytes > {most:UInt32}, [], `Events.Attributes`) AS event_attributes
FROM
(
    SELECT
        *,
        byteSize(`Events.Attributes`) AS event_bytes,
        mapFilter((k, v) -> v != '', mapApply((k, v) -> (k, multiIf(
            length(v) <= {longest:UInt32}, v,
            startsWith(v, '['), concat('[', arrayStringConcat(arrayFilter(m -> length(m) <= {longest:UInt32},
                arraySlice(JSONExtractArrayRaw(v), -{elements:UInt8})), ','), ']'),
            '')), mapConcat(SpanAttributes, ContentAttributes))) AS said
    FROM otel_spans
    WHERE TenantId = {tenant:String} AND TraceId IN {traces:Array(String)} AND SpanId IN {spans:Array(String)}
        AND Source = 'otlp'
    ORDER BY Duration > 0 DESC, SequenceNumber DESC, Position DESC
    LIMIT 1 BY TraceId, SpanId
)
