-- Number of spans as `run_spans.sql` returns them.
SELECT uniqExact(TraceId, SpanId)
FROM otel_spans
WHERE TenantId = {tenant:String} AND TraceId IN {trace_ids:Array(String)} AND Source = 'otlp'
    AND SpanId NOT IN (SELECT span_id FROM agent_events
        WHERE tenant = {tenant:String} AND trace_id IN {told_by:Array(String)})
