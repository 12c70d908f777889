-- Content of the events that describe spans of some traces, each value cut to a limit.
SELECT
    otel_trace_id,
    span_id,
    arrayMap(f -> (f.1, left(f.2, {most:UInt32}), toUInt64(length(f.2))), JSONExtractKeysAndValuesRaw(content))
FROM
(
    SELECT otel_trace_id, agent_events.span_id AS span_id, event_content.content AS content
    FROM event_content
    INNER JOIN
    (
        SELECT sequence_number, otel_trace_id, span_id
        FROM agent_events
        WHERE tenant = {tenant:String} AND otel_trace_id IN {traces:Array(String)} AND content_bytes > 0
    ) AS agent_events ON event_content.sequence_number = agent_events.sequence_number
    WHERE tenant = {tenant:String} AND conversation IN
    (
        SELECT if(session_id = '', trace_id, session_id)
        FROM agent_events
        WHERE tenant = {tenant:String} AND otel_trace_id IN {traces:Array(String)} AND content_bytes > 0
    )
)
LIMIT {limit:UInt32}
