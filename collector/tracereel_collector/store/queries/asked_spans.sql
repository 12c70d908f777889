-- The spans of some traces that have question and answer of the run: the outermost, the first agents, the first
-- and the last model call. A run's own spans repeat its events.
SELECT
    TraceId,
    argMin(SpanId, (ParentSpanId != '', Timestamp)) AS outermost,
    arrayMap(each -> each.2, groupArraySortedIf(3)((Timestamp, SpanId), CallKind IN ('agent', 'workflow'))) AS agents,
    argMinIf(SpanId, Timestamp, CallKind = 'llm') AS first_call,
    argMaxIf(SpanId, Timestamp, CallKind = 'llm') AS last_call
FROM otel_spans
WHERE TenantId = {tenant:String} AND TraceId IN {traces:Array(String)} AND Source = 'otlp'
    AND ScopeName != 'tracereel'
GROUP BY TraceId
ORDER BY TraceId
