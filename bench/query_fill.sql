-- Bodies of 50 events each, as the SDK would send them: a run of six agents that call models and tools.
INSERT INTO events_in
WITH
    arrayMap(i -> concat(['ci', 'ta', 'me', 'di', 'co', 'ho', 'ra', 'pa', 'lu', 'no'][1 + i % 10],
        ['na', 'ro', 'ter', 'sol', 'mar', 'vi'][1 + intDiv(i, 10) % 6],
        ['', 's', 'do', 'ción', 'ble', 'mente', 'dor'][1 + intDiv(i, 60) % 7]), range(420)) AS words,
    (a, b) -> toUInt64(cityHash64(a, b)) AS dice,
    (a, b) -> lower(leftPad(hex(cityHash64(a, b)), 16, '0')) AS id,
    (a, count) -> arrayStringConcat(arrayMap(i -> words[1 + cityHash64(a, i) % (1 + cityHash64(i, a) % 420)], range(count)), ' ')
        AS text,
    j -> (j + 7) % 8 AS part,
    j -> if(j IN (0, 49), 0, intDiv(j + 7, 8)) AS step,
    j -> intDiv(j - 1, 8) AS agent,
    j -> multiIf(j = 0, 'agent.pipeline.started', j = 49, 'agent.pipeline.completed',
        (j + 7) % 8 = 0, 'agent.execution.started', (j + 7) % 8 IN (1, 3), 'agent.llm.called',
        (j + 7) % 8 IN (2, 5), 'agent.tool.called', (j + 7) % 8 = 4, 'agent.decision.recorded',
        (j + 7) % 8 = 6, 'agent.step.completed',
        n % 20 = 3 AND intDiv(j - 1, 8) = 5, 'agent.execution.failed', 'agent.execution.completed') AS kind,
    j -> replaceOne(toString(fromUnixTimestamp64Micro(intDiv(start, 1000) + j * 40000, 'UTC')), ' ', 'T') AS moment
SELECT
    'default',
    {first_number:UInt64} + (n - {first_run:UInt64}) * 50,
    toUInt64(start + 3000000000),
    arrayStringConcat(arrayMap(j -> concat(
        '{"event_id":"evt_', id(n, j), '","event_type":"', kind(j),
        '","event_version":"1.0.0","timestamp":"', moment(j), 'Z","trace_id":"', trace,
        '","otel_trace_id":"', trace, '","span_id":"', id(n, 1000 + step(j) * 10 + part(j) * (part(j) IN (1, 2, 3, 5, 6))),
        '","parent_span_id":"', if(j IN (0, 49), '', id(n, if(part(j) IN (0, 7), 1000, 1000 + step(j) * 10))),
        '","request_id":"req_', toString(n), '","session_id":"ses_', toString(intDiv(n, 4)),
        '","user_id":"user_', toString(n % 997), '","service":"clinic","emitter_id":"emt_', toString(n % 16),
        '","emitter_seq":', toString(intDiv(n, 16) * 50 + j + 1), ',"trace_seq":', toString(j + 1),
        ',"hlc":"', lower(hex(toUInt64(start + j * 40000000))), '"',
        if(j IN (0, 49), ',"pipeline_type":"', concat(',"agent_name":"agent_', toString(agent(j)), '","agent_version":"1.0.0')),
        if(j IN (0, 49), ['booking', 'rescheduling', 'cancelling'][1 + n % 3], ''), '"',
        multiIf(
            j = 0, concat(',"agent_sequence":["agent_0","agent_1"],"user_prompt":"', text(n, 12),
                if(n % 1000 = 17, ' zarzaparrilla', ''), '","user_timezone":"UTC"'),
            j = 49, concat(',"status":"', if(n % 20 = 3, 'failed', 'success'), '","final_outcome":"booked","total_execution_time_ms":',
                toString(1900 + dice(n, 1) % 3000), ',"agents_executed":6,"agents_succeeded":6,"agents_failed":0,"agents_retried":0,"output_summary":"',
                text(n + 1, 10), '","final_confidence":0.8'),
            part(j) = 0, concat(',"input_type":"str","input_summary":"', text(n + j, 8), '","input_size_bytes":80'),
            part(j) IN (1, 3), concat(',"operation":"chat","llm_provider":"openai","llm_model":"', ['gpt-4o-mini', 'gpt-4o', 'claude-sonnet-4'][1 + dice(n, j) % 3],
                '","status":"success","duration_ms":', toString(100 + dice(n, j) % 900), ',"llm_tokens_used":', toString(300 + dice(n, j) % 700),
                ',"llm_prompt_tokens":200,"llm_completion_tokens":100,"llm_cost_usd":0.000', toString(100 + dice(n, j) % 900),
                ',"input_messages":[{"role":"user","parts":[{"type":"text","content":"', text(n * 3 + j, 20), '"}]}]'),
            part(j) IN (2, 5), concat(',"tool_name":"calendar","tool_call_id":"call_', toString(j), '","arguments":{"day":"', text(n + j, 2),
                '"},"result_summary":"', text(n + j, 6), '","status":"success","duration_ms":', toString(dice(n, j) % 300)),
            part(j) = 4, concat(',"decision_id":"dec_', toString(j), '","decision_type":"slot_choice","decision_category":"resolution","reasoning":"',
                text(n * 7 + j, 15), '","confidence":0.', toString(50 + dice(n, j) % 50)),
            part(j) = 6, concat(',"step_name":"check","status":"success","duration_ms":', toString(dice(n, j) % 50)),
            n % 20 = 3 AND agent(j) = 5, concat(',"error_type":"LLMTimeoutError","error_message":"no answer after 30 s","error_code":"LLM_TIMEOUT",',
                '"error_category":"transient","was_retried":true,"retry_count":2,"max_retries_reached":true,"fallback_attempted":false,',
                '"execution_time_before_failure_ms":', toString(200 + dice(n, j) % 3000)),
            concat(',"execution_time_ms":', toString(200 + dice(n, j) % 3000), ',"execution_time_seconds":1.5,"output_type":"dict","output_summary":"',
                text(n + j, 10), '","output_size_bytes":120,"confidence":0.', toString(60 + dice(n, j) % 40), ',"reasoning":"', text(n * 5 + j, 14),
                '","llm_tokens_used":900,"llm_cost_usd":0.0009')),
        if(j = 49 OR part(j) NOT IN (0, 4) AND j != 0, concat(',"span_name":"', kind(j), '","span_start_unix_nano":', toString(start + j * 40000000 - 30000000),
            ',"span_end_unix_nano":', toString(start + j * 40000000)), ''), '}'), range(50)), '\n')
FROM
(
    SELECT
        number + {first_run:UInt64} AS n,
        if({one_run:String} = '', lower(hex(MD5(concat('run', toString(n))))), {one_run:String}) AS trace,
        {begin:Int64} + toInt64(n - {zero_run:UInt64}) * {spacing:Int64} AS start
    FROM numbers({runs:UInt64})
)
