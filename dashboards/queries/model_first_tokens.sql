SELECT $__timeInterval(Timestamp) AS time, Model AS model, quantile(0.95)(FirstTokenMs) AS p95
FROM model_calls
WHERE $__timeFilter(Timestamp) AND isNotNull(FirstTokenMs)
GROUP BY time, model
ORDER BY time
