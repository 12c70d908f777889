SELECT min(day)
FROM
(
    SELECT minOrNull(toDate(ingested_at)) AS day FROM agent_events WHERE tenant = {tenant:String}
    UNION ALL
    SELECT minOrNull(toDate(IngestedAt)) FROM otel_spans WHERE TenantId = {tenant:String}
)
