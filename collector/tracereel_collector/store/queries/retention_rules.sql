SELECT
    tenant,
    latest.1 AS days,
    concat(replaceOne(toString(latest.2), ' ', 'T'), 'Z') AS set_at,
    latest.3 AS set_by
FROM
(
    SELECT tenant, argMax((days, set_at, set_by), set_at) AS latest
    FROM retention_rules
    GROUP BY tenant
)
WHERE days IS NOT NULL
ORDER BY tenant
