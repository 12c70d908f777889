SELECT
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
