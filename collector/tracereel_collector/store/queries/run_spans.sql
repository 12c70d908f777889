-- Spans of some OpenTelemetry traces from other instrumentations, deduplicated. Ours come from events.
SELECT
    SequenceNumber,
    formatDateTime(IngestedAt, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    TraceId,
    SpanId,
    ParentSpanId,
    toUnixTimestamp64Nano(Timestamp) AS began,
    Duration,
    if(StepName = '', SpanName, StepName) AS name,
    SpanKind,
    ServiceName,
    StatusCode,
    if(StatusMessage = '', `Events.Attributes`[indexOf(`Events.Name`, 'exception')]['exception.message'],
        StatusMessage) AS message,
    CallKind,
    Provider,
    if(ModelServed = '', ModelRequested, ModelServed) AS Model,
    PromptTokens,
    CompletionTokens,
    TotalTokens,
    CostUsd,
    AgentName,
    WorkflowName,
    ToolName,
    ErrorType,
    SessionId,
    UserId,
    if({with_attributes:Bool}, toJSONString(mapConcat(SpanAttributes, ContentAttributes)), '') AS attributes,
    length(`Events.Name`) AS event_count,
    ScopeName,
    ModelRequested,
    ResponseId
FROM otel_spans
WHERE TenantId = {tenant:String} AND TraceId IN {trace_ids:Array(String)} AND Source = 'otlp'
    AND ({only_span:String} = '' OR SpanId = {only_span:String})
    -- Skip spans that are also derived from an event.
    AND SpanId NOT IN (SELECT span_id FROM agent_events
        WHERE tenant = {tenant:String} AND trace_id IN {told_by:Array(String)})
    AND (toUInt64(greatest(began, 0)), SpanId) > ({after_position:UInt64}, {after_span:String})
-- As in `otel_traces`: of several rows of a span the last that has ended.
ORDER BY began, SpanId, Duration > 0 DESC, SequenceNumber DESC, Position DESC
LIMIT 1 BY TraceId, SpanId
LIMIT {limit:UInt32}
