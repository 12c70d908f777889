-- Runs that name a user, and the user's OpenTelemetry traces without events.
SELECT DISTINCT id FROM
(
    SELECT trace_id AS id FROM agent_events
    WHERE tenant = {tenant:String} AND user_id IN {user_ids:Array(String)}
    UNION ALL
    SELECT TraceId AS id FROM otel_spans
    WHERE TenantId = {tenant:String} AND UserId IN {user_ids:Array(String)}
    UNION ALL
    -- Runs whose user is named only in spans. If several runs share a trace, its spans identify none.
    SELECT any(trace_id) AS id FROM agent_events
    WHERE tenant = {tenant:String} AND otel_trace_id IN
    (
        SELECT TraceId FROM otel_spans WHERE TenantId = {tenant:String} AND UserId IN {user_ids:Array(String)}
    )
    GROUP BY otel_trace_id
    HAVING uniqExact(trace_id) = 1
)
LIMIT {limit:UInt32}
