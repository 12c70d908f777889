-- Which of some agents still have events. Some types of events are in no sum.
SELECT toString(agent_name) AS name
FROM agent_events
WHERE tenant = {tenant:String} AND agent_name IN {names:Array(String)}
GROUP BY agent_name
