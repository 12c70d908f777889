-- Scores of a tenant aggregated by agent and name. A score of a whole run or a session has no agent.
SELECT
    agent,
    name,
    count() AS scores,
    avg(number) AS average,
    min(number) AS lowest,
    max(number) AS highest,
    mapFromArrays(
        arraySlice((sumMap([toString(category)], [toUInt64(category != '')]) AS counted).1, 1, 50),
        arraySlice(counted.2, 1, 50)) AS categories
FROM
(
SELECT
    if(s.agent_name != '', s.agent_name, step.agent) AS agent, name, number, category, source
FROM
(
    SELECT * FROM score_tellings
    WHERE tenant = {tenant:String} AND ({trace_id:String} = '' OR trace_id = {trace_id:String})
      AND ({session_key:String} = '' OR (trace_id = '' AND session_key = {session_key:String}))
    ORDER BY sequence_number DESC
    LIMIT 1 BY trace_id, session_key, score_id
) AS s
LEFT JOIN
(
    SELECT trace_id, step_id, any(agent_name) AS agent
    FROM agent_events
    ARRAY JOIN [span_id, execution_id] AS step_id
    WHERE tenant = {tenant:String} AND agent_name != '' AND step_id != ''
      AND trace_id IN
      (
          SELECT trace_id FROM score_tellings
          WHERE tenant = {tenant:String} AND ({trace_id:String} = '' OR trace_id = {trace_id:String})
      )
    GROUP BY trace_id, step_id
) AS step ON step.trace_id = s.trace_id AND step.step_id = if(s.span_id != '', s.span_id, s.execution_id)
WHERE ({name:String} = '' OR name = {name:String})
  AND ({agent:String} = '' OR agent = {agent:String})
  AND ({source:String} = '' OR source = {source:String})
  AND ({bounded:UInt8} = 0 OR number BETWEEN {min:Float64} AND {max:Float64})
)
GROUP BY agent, name
ORDER BY scores DESC, agent, name
LIMIT {limit:UInt32}
