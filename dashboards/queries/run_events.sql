SELECT
    timestamp AS time, event_type AS event, if(agent_name = '', pipeline_type, agent_name) AS who, status,
    duration_ms AS lasted, confidence, llm_model AS model, llm_tokens_used AS tokens, llm_cost_usd AS cost,
    error_type AS error
FROM agent_events
WHERE trace_id = ${run:sqlstring}
ORDER BY hlc, sequence_number LIMIT 1 BY event_id
LIMIT 2000
