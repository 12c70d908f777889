SELECT
    Provider AS provider,
    Model AS model,
    count() AS calls,
    countIf(ErrorType != '') / count() AS failed,
    sum(PromptTokens) AS prompt_tokens,
    sum(CompletionTokens) AS completion_tokens,
    sum(CostUsd) AS cost,
    sum(CostUsd) / count() AS cost_per_call,
    countIf(isNull(CostUsd)) AS calls_without_cost,
    quantile(0.95)(Duration) AS p95
FROM model_calls
WHERE $__timeFilter(Timestamp)
GROUP BY provider, model ORDER BY cost DESC LIMIT 200
