SELECT
    tenant,
    toStartOfMinute($moment) AS minute,
    agent,
    toStartOfMonth(ingested_at) AS month,
    $sums
FROM
(
    SELECT
        * EXCEPT payload,
        $nano_usd AS nano_usd,
        if(agent_name = '', JSONExtractString(
            if(event_type = 'agent.fallback.triggered', payload, ''), 'primary_agent'),
            toString(agent_name)) AS agent
    FROM agent_events$local$where
) AS agent_events
WHERE agent != '' AND startsWith(event_type, 'agent.')
GROUP BY tenant, minute, agent, month
