SELECT $__timeInterval(Timestamp) AS time, Model AS model, sum(TotalTokens) AS tokens
FROM model_calls
WHERE $__timeFilter(Timestamp)
GROUP BY time, model
ORDER BY time
