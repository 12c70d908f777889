-- Agents of the tenant of whom nothing is left: all that was summed up was taken away again.
SELECT toString(agent) AS name
FROM agent_minutes
WHERE tenant = {tenant:String}
GROUP BY name
HAVING sum(started) = 0 AND sum(succeeded) = 0 AND sum(failed) = 0 AND sum(cancelled) = 0
   AND sum(retries) = 0 AND sum(fallbacks) = 0 AND sum(decisions) = 0
   AND sum(model_calls) = 0 AND sum(tool_calls) = 0
   AND name NOT IN (SELECT toString(agent_name) FROM agent_events WHERE tenant = {tenant:String})
LIMIT {limit:UInt32}
