-- Cost of models by tenant in dollars per hour: recently, and within a day or since its first data.
SELECT
    tenant,
    sumIf(nano_usd, minute >= {since:DateTime('UTC')}) / 1e9 * 3600 / {lately:UInt32} AS usd_per_hour,
    sum(nano_usd) / 1e9 * 3600 / greatest({lately:UInt32}, {now:Float64} - toUnixTimestamp(min(minute)))
        AS usd_per_hour_of_day
FROM
(
    SELECT tenant, minute, agent, greatest(sum(execution_nano_usd), sum(call_nano_usd) + $unpriced) AS nano_usd
    FROM
    (
        SELECT tenant, minute, agent, execution_nano_usd, call_nano_usd, unpriced_tokens
        FROM agent_minutes WHERE minute >= {day:DateTime('UTC')}
        UNION ALL
        SELECT tenant, minute, agent, execution_nano_usd, call_nano_usd, unpriced_tokens
        FROM agent_calls WHERE minute >= {day:DateTime('UTC')} AND day >= toDate({day:DateTime('UTC')}) - 1
    ) AS a
    GROUP BY tenant, minute, agent
)
GROUP BY tenant
ORDER BY usd_per_hour DESC, tenant
LIMIT 100
