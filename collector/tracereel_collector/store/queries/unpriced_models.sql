-- Models whose calls have no cost because nobody told us the price, the most called first.
SELECT toString(Model) AS name, sum(CallsWithoutCost) AS calls
FROM model_usage
WHERE (Provider, Model) NOT IN (SELECT Provider, Model FROM priced_models)
GROUP BY Model
HAVING calls > 0
ORDER BY calls DESC, name
LIMIT 1000
