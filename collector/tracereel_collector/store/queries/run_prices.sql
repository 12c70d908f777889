-- Cost of the model calls of some traces that were sent without one, by the prices at that time.
-- As in the view `model_calls`, which covers all traces and is too expensive for one.
SELECT
    c.SpanId,
    $calculated_cost AS cost
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
