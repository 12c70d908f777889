SELECT
    s.agent AS agent, s.executions AS executions, s.failing AS failing, s.mean_duration AS mean_duration,
    s.calls_of_models AS calls_of_models, s.calls_of_tools AS calls_of_tools, s.tokens AS tokens, c.cost AS cost,
    c.without_price AS without_price
FROM
(
    SELECT
        a.agent AS agent,
        sum(a.succeeded + a.failed + a.cancelled) AS executions,
        sum(a.failed) / nullIf(executions, 0) AS failing,
        sum(a.duration_us) / nullIf(executions, 0) AS mean_duration,
        sum(a.model_calls) AS calls_of_models,
        sum(a.tool_calls) AS calls_of_tools,
        sum(a.call_tokens) AS tokens
    FROM
    (
        SELECT minute, agent, succeeded, failed, cancelled, duration_us, model_calls, tool_calls, call_tokens
        FROM agent_minutes
        WHERE minute >= toStartOfMinute($__fromTime) AND minute <= $__toTime
        UNION ALL
        SELECT minute, agent, succeeded, failed, cancelled, duration_us, model_calls, tool_calls, call_tokens
        FROM agent_calls
        WHERE agent != '' AND minute >= toStartOfMinute($__fromTime) AND minute <= $__toTime
    ) AS a
    GROUP BY agent
) AS s
LEFT JOIN
(
    SELECT
        if(k.AgentName = '', m.AgentName, k.AgentName) AS agent,
        sum(m.CostUsd) AS cost,
        sumIf(m.TotalTokens, m.CostSource = 'unknown_model') AS without_price
    FROM model_calls AS m
    LEFT ANY JOIN
    (
        SELECT TraceId, SpanId, AgentName FROM settled_calls FINAL
        WHERE Repeated = 0 AND Minute >= toStartOfMinute($__fromTime) AND Minute <= $__toTime
    ) AS k ON m.TraceId = k.TraceId AND m.SpanId = k.SpanId
    WHERE $__timeFilter(Timestamp)
    GROUP BY agent
) AS c ON s.agent = c.agent
WHERE s.agent != ''
ORDER BY tokens DESC, executions DESC
LIMIT 200
