-- Spans of another instrumentation with their attributes and events; of one that came several times, the last
-- that has ended.
SELECT
    TraceId,
    SpanId,
    toUnixTimestamp64Nano(Timestamp) AS began,
    Duration,
    CallKind,
    Provider,
    if(ModelServed = '', ModelRequested, ModelServed) AS Model,
    PromptTokens,
    CompletionTokens,
    TotalTokens,
    CacheReadTokens,
    CacheWriteTokens,
    ReasoningTokens,
    ToolName,
    ToolCallId,
    FinishReason,
    FirstTokenMs,
    mapConcat(SpanAttributes, ContentAttributes) AS attributes,
    AttributeTypes,
    `Events.Name` AS names,
    arrayMap(t -> toUnixTimestamp64Nano(t), `Events.Timestamp`) AS times,
    `Events.Attributes` AS event_attributes
FROM otel_spans
WHERE TenantId = {tenant:String} AND TraceId IN {trace_ids:Array(String)} AND SpanId IN {span_ids:Array(String)}
    AND Source = 'otlp'
ORDER BY Duration > 0 DESC, SequenceNumber DESC, Position DESC
LIMIT 1 BY TraceId, SpanId
