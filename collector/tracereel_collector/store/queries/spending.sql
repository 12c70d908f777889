-- Cost of models by tenant in dollars, recently and within a day, and the start of that day's data.
SELECT
    tenant,
    sumIf(nano_usd, minute >= {since:DateTime('UTC')}) / 1e9 AS lately,
    sum(nano_usd) / 1e9 AS in_a_day,
    toUnixTimestamp(min(minute)) AS first
FROM
(
    SELECT tenant, minute, agent, greatest(sum(execution_nano_usd), sum(call_nano_usd) + $unpriced) AS nano_usd
    FROM agent_minutes AS a
    WHERE minute >= {day:DateTime('UTC')}
    GROUP BY tenant, minute, agent
)
GROUP BY tenant
ORDER BY lately DESC, tenant
LIMIT 100
