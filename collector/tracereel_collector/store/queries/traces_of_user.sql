-- Runs in which a user is named, and OpenTelemetry traces of theirs that no event speaks of.
SELECT DISTINCT id FROM
(
    SELECT trace_id AS id FROM agent_events
    WHERE tenant = {tenant:String} AND user_id = {user_id:String}
    UNION ALL
    SELECT TraceId AS id FROM otel_spans
    WHERE TenantId = {tenant:String} AND UserId = {user_id:String}
    UNION ALL
    -- A run whose spans alone name the user; where several runs share a trace, spans tell of none.
    SELECT any(trace_id) AS id FROM agent_events
    WHERE tenant = {tenant:String} AND otel_trace_id IN
    (
        SELECT TraceId FROM otel_spans WHERE TenantId = {tenant:String} AND UserId = {user_id:String}
    )
    GROUP BY otel_trace_id
    HAVING uniqExact(trace_id) = 1
)
LIMIT {limit:UInt32}
