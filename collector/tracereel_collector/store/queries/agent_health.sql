-- Recent activity of each agent of all tenants, busiest first.
SELECT
    tenant,
    agent,
    sum(agent_minutes.succeeded + agent_minutes.failed + agent_minutes.cancelled) AS ended,
    sum(agent_minutes.failed) AS failed,
    sum(agent_minutes.retries) AS retries,
    sum(agent_minutes.fallbacks) AS fallbacks,
    sum(confidence_ppm) / 1e6 / nullIf(sum(arraySum(mapValues(confidences))), 0) AS confidence
FROM agent_minutes
WHERE minute >= {since:DateTime('UTC')}
GROUP BY tenant, agent
ORDER BY ended DESC, tenant, agent
LIMIT 500
