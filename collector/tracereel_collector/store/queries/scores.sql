-- Scores of a tenant, newest first. The agent of a step comes from the step's events.
SELECT
    score_id,
    trace_id,
    session_id,
    s.span_id AS span_id,
    s.execution_id AS execution_id,
    if(s.agent_name != '', s.agent_name, step.agent) AS agent,
    name,
    value_type,
    number,
    category,
    comment,
    source,
    author,
    formatDateTime(updated_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS updated,
    sequence_number
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
  AND ({author:String} = '' OR author = {author:String})
  AND ({category:String} = '' OR category = {category:String})
  AND (empty({words:Array(String)}) OR hasAllTokens(lowerUTF8(comment), {words:Array(String)}))
  AND ({bounded:UInt8} = 0 OR number BETWEEN {min:Float64} AND {max:Float64})
  AND sequence_number < {before:UInt64}
ORDER BY sequence_number DESC
LIMIT {limit:UInt32}
