SELECT $__timeInterval(Timestamp) AS time, Model AS model, sum(CostUsd) AS cost
FROM model_calls
WHERE $__timeFilter(Timestamp) AND isNotNull(CostUsd)
GROUP BY time, model
ORDER BY time
