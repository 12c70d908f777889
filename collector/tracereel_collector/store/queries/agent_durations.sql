-- Durations of all executions of agents in a window, by agent and time step, in microseconds.
SELECT agent, intDiv(toUnixTimestamp(minute) - {origin:Int64}, {step:Int64}) AS bucket, groupArray({limit:UInt32})(us)
FROM
(
    SELECT toString(agent_name) AS agent, toStartOfMinute($event_moment) AS minute, $event_us AS us
    FROM agent_events
    WHERE tenant = {tenant:String} AND toDate(ingested_at) >= {first_day:Date} AND $event_ends
    UNION ALL
    SELECT toString(AgentName), toStartOfMinute($span_moment), $span_us
    FROM otel_spans
    WHERE TenantId = {tenant:String} AND toDate(IngestedAt) >= {first_day:Date}
        AND Source = 'otlp' AND ScopeName != 'tracereel' AND $span_ends
)
WHERE agent != '' AND ({agent:String} = '' OR agent = {agent:String})
    AND minute >= toDateTime({from:Int64}, 'UTC') AND minute < toDateTime({to:Int64}, 'UTC')
GROUP BY agent, bucket
