-- Cost of the model calls of some traces that were sent without one, by the prices at that time.
-- As in the view `model_calls`, which covers all traces and is too expensive for one.
SELECT
    c.SpanId,
    (
        greatest(toFloat64(assumeNotNull(c.PromptTokens)) - ifNull(c.CacheReadTokens, 0)
            - ifNull(c.CacheWriteTokens, 0), 0) * p.Input
        + ifNull(c.CacheReadTokens, 0) * ifNull(p.CacheRead, p.Input)
        + ifNull(c.CacheWriteTokens, 0) * ifNull(p.CacheWrite, p.Input)
        + ifNull(c.CompletionTokens, 0) * p.Output
    ) / 1000000 AS cost
FROM
(
    SELECT
        SpanId, Timestamp, Provider, if(ModelServed = '', ModelRequested, ModelServed) AS Model,
        PromptTokens, CompletionTokens, CacheReadTokens, CacheWriteTokens
    FROM whole_spans
    WHERE TenantId = {tenant:String} AND TraceId IN {trace_ids:Array(String)}
        AND isNull(CostUsd) AND isNotNull(PromptTokens)
        AND (CallKind != 'llm' OR isNotNull(CompletionTokens))
    LIMIT {limit:UInt32}
) AS c
ASOF INNER JOIN priced_models AS p
    ON c.Provider = p.Provider AND c.Model = p.Model AND c.Timestamp >= p.ValidFrom
