SELECT
    TenantId AS tenant,
    toStartOfMinute($moment) AS minute,
    AgentName AS agent,
    toStartOfMonth(IngestedAt) AS month,
    $sums
FROM otel_spans$local
WHERE Source = 'otlp' AND AgentName != '' AND ScopeName != 'tracereel'$where
GROUP BY tenant, minute, agent, month
