-- Calls of models and tools in some runs, and final results, in order, from events or spans.
SELECT *
FROM
(
    SELECT
        trace_id,
        hlc AS clock,
        sequence_number,
        multiIf(event_type = 'agent.llm.called', 'model', event_type = 'agent.tool.called', 'tool', 'answer') AS kind,
        toString(agent_name) AS agent,
        if(kind = 'tool', JSONExtractString(payload, 'tool_name'), toString(llm_model)) AS name,
        JSONExtractString(payload, 'tool_call_id') AS tool_call_id,
        toString(status) AS how,
        toFloat64(ifNull(duration_ms, 0)) AS took_ms,
        llm_tokens_used AS tokens,
        llm_cost_usd AS cost_usd,
        leftUTF8(multiIf(kind != 'tool', '', JSONHas(payload, 'arguments'), JSONExtractRaw(payload, 'arguments'),
            JSONExtractString(payload, 'input_summary')), {text:UInt32}) AS asked,
        leftUTF8(if(kind = 'tool', if(JSONExtractString(payload, 'result_summary') != '',
            JSONExtractString(payload, 'result_summary'), JSONExtract(payload, 'result', 'String')),
            JSONExtractString(payload, 'output_summary')), {text:UInt32}) AS answered,
        JSONExtractUInt(payload, 'round') AS round
    FROM agent_events
    WHERE tenant = {tenant:String} AND trace_id IN {runs:Array(String)}
      AND event_type IN ('agent.llm.called', 'agent.tool.called', 'agent.execution.completed', 'agent.pipeline.completed')
    ORDER BY hlc, sequence_number
    LIMIT 1 BY event_id
    UNION ALL
    WITH mapConcat(SpanAttributes, ContentAttributes) AS said
    SELECT
        TraceId,
        toUInt64(toUnixTimestamp64Nano(Timestamp) + Duration),
        SequenceNumber,
        if(CallKind = 'tool', 'tool', if(CallKind IN ('agent', 'workflow'), 'answer', 'model')),
        toString(AgentName),
        toString(multiIf(CallKind = 'tool', ToolName, ModelServed = '', ModelRequested, ModelServed)),
        ToolCallId,
        if(StatusCode = 'Error', 'failed', 'success'),
        Duration / 1000000,
        TotalTokens,
        CostUsd,
        -- No lambda: it would copy the attributes for each name.
        leftUTF8(multiIf(
            said['gen_ai.tool.call.arguments'] != '', said['gen_ai.tool.call.arguments'],
            said['input.value'] != '', said['input.value'],
            said['gen_ai.input.messages'] != '', said['gen_ai.input.messages'],
            said['traceloop.entity.input'] != '', said['traceloop.entity.input'],
            said['gen_ai.prompt.0.content'] != '', said['gen_ai.prompt.0.content'],
            said['gen_ai.prompt'] != '', said['gen_ai.prompt'],
            said['llm.input_messages.0.message.content'] != '', said['llm.input_messages.0.message.content'],
            ''), {text:UInt32}),
        leftUTF8(multiIf(
            said['gen_ai.tool.call.result'] != '', said['gen_ai.tool.call.result'],
            said['output.value'] != '', said['output.value'],
            said['gen_ai.output.messages'] != '', said['gen_ai.output.messages'],
            said['traceloop.entity.output'] != '', said['traceloop.entity.output'],
            said['gen_ai.completion.0.content'] != '', said['gen_ai.completion.0.content'],
            said['gen_ai.completion'] != '', said['gen_ai.completion'],
            said['llm.output_messages.0.message.content'] != '', said['llm.output_messages.0.message.content'],
            ''), {text:UInt32}),
        0
    FROM otel_spans
    WHERE TenantId = {tenant:String} AND TraceId IN {otel_runs:Array(String)} AND Source = 'otlp'
      AND CallKind NOT IN ('', 'other', 'mcp', 'embedding') AND ScopeName != 'tracereel'
      AND (TraceId, SpanId) NOT IN (SELECT TraceId, SpanId FROM settled_calls FINAL
          WHERE TenantId = {tenant:String} AND TraceId IN {otel_runs:Array(String)} AND Repeated)
    ORDER BY Timestamp, SequenceNumber
    LIMIT 1 BY TraceId, SpanId
)
ORDER BY clock, sequence_number
LIMIT {limit:UInt32}
