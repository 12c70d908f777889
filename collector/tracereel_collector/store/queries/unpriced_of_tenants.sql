-- Calls without a cost by tenant, because the model has no price.
SELECT TenantId AS tenant, sum(CallsWithoutCost) AS calls
FROM model_usage
WHERE CallsWithoutCost > 0 AND (Provider, Model) NOT IN (SELECT Provider, Model FROM priced_models)
GROUP BY tenant
ORDER BY calls DESC, tenant
LIMIT 100
