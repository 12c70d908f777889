SELECT $__timeInterval(minute) AS time, a.agent AS agent, sum(a.succeeded + a.failed + a.cancelled) AS executions
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
GROUP BY time, agent
HAVING executions > 0
ORDER BY time
