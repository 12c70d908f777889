-- Number of spans as `run_spans.sql` returns them, and of their events as `run_span_events.sql` does.
WITH arrayFilter((name, attributes) -> NOT (ScopeName = 'tracereel' AND mapContains(attributes,
        transform(toString(name), ['decision_recorded', 'retry_attempted', 'fallback_triggered'],
            ['decision_id', 'reason', 'primary_agent'], ''))), `Events.Name`, `Events.Attributes`) AS names
SELECT
    countIf(alone),
    sum(length(names)),
    sum(countEqual(names, 'retry_attempted')),
    sum(countEqual(names, 'fallback_triggered')),
    sum(countEqual(names, 'decision_recorded'))
FROM
(
    SELECT
        ScopeName, `Events.Name`, `Events.Attributes`,
        SpanId NOT IN (SELECT span_id FROM agent_events
            WHERE tenant = {tenant:String} AND trace_id IN {told_by:Array(String)}) AS alone
    FROM otel_spans
    WHERE TenantId = {tenant:String} AND TraceId IN {trace_ids:Array(String)} AND Source = 'otlp'
    ORDER BY TraceId, SpanId, Timestamp, SequenceNumber
    LIMIT 1 BY TraceId, SpanId
)
