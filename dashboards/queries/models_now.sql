SELECT
    count() AS calls,
    countIf(ErrorType != '') / nullIf(calls, 0) AS failing,
    sum(TotalTokens) AS tokens,
    sum(CostUsd) AS cost,
    sumIf(TotalTokens, CostSource = 'unknown_model') / nullIf(tokens, 0) AS without_price
FROM model_calls
WHERE $__timeFilter(Timestamp)
