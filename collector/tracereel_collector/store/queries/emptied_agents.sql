-- Agents of a tenant whose sums are all zero after deletions, by name, after a given name.
SELECT toString(agent) AS name
FROM agent_hours
WHERE tenant = {tenant:String} AND name > {after:String}
GROUP BY name
HAVING sum(started) = 0 AND sum(succeeded) = 0 AND sum(failed) = 0 AND sum(cancelled) = 0
   AND sum(retries) = 0 AND sum(fallbacks) = 0 AND sum(decisions) = 0
   AND sum(model_calls) = 0 AND sum(tool_calls) = 0
ORDER BY name
LIMIT {limit:UInt32}
