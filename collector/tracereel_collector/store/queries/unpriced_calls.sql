-- Calls of all tenants without a cost, because the model has no price.
SELECT sum(CallsWithoutCost) AS calls
FROM model_usage
WHERE (Provider, Model) NOT IN (SELECT Provider, Model FROM priced_models)
