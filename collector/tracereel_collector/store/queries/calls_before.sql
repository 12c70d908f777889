-- Model calls of a run that ended before a moment, the latest first: SDK events and spans of others.
SELECT step_id, sequence_number, began, ended
FROM
(
    SELECT
        if(span_id = '', event_id, span_id) AS step_id,
        sequence_number,
        if(span_began > 0, span_began,
           toUnixTimestamp64Nano(timestamp) - 1000000 * toInt64(ifNull(duration_ms, 0))) AS began,
        if(span_began > 0, span_ended, toUnixTimestamp64Nano(timestamp)) AS ended
    FROM agent_events
    WHERE tenant = {tenant:String} AND trace_id = {trace_id:String} AND event_type = 'agent.llm.called'
    UNION ALL
    SELECT
        SpanId, toUInt64(0), toUnixTimestamp64Nano(Timestamp),
        toUnixTimestamp64Nano(Timestamp) + toInt64(Duration)
    FROM otel_spans
    WHERE TenantId = {tenant:String} AND TraceId IN {trace_ids:Array(String)} AND Source = 'otlp'
        AND CallKind = 'llm'
)
WHERE ended <= {before:Int64} AND step_id != {step_id:String}
-- Of a call that came both ways, the event is read.
ORDER BY began DESC, step_id, sequence_number DESC
LIMIT 1 BY step_id
LIMIT {limit:UInt32}
