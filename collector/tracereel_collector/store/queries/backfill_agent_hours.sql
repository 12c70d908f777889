-- Adds to the hours of agents what is missing of their minutes: a view does so, unless it is interrupted.
INSERT INTO agent_hours (tenant, minute, agent, month, unpriced_tokens)
SELECT tenant, hour, agent, toDate(splitByChar(' ', {part:String})[1]) AS month, missing
FROM
(
    SELECT
        tenant, hour, agent, sum(r.calls) AS more_calls,
        mapFilter((k, n) -> n != 0, sumMap(r.tokens)) AS missing
    FROM
    (
        SELECT
            tenant, toStartOfHour(s.minute) AS hour, agent, sum(s.model_calls) AS calls,
            sumMap(s.unpriced_tokens) AS tokens
        FROM agent_minutes AS s
        WHERE s.month = toDate(splitByChar(' ', {part:String})[1])
            AND toDate(s.minute) = toDate(splitByChar(' ', {part:String})[2])
        GROUP BY tenant, hour, agent
        UNION ALL
        SELECT
            tenant, s.minute AS hour, agent, -sum(s.model_calls),
            mapApply((k, n) -> (k, -n), sumMap(s.unpriced_tokens))
        FROM agent_hours AS s
        WHERE s.month = toDate(splitByChar(' ', {part:String})[1])
            AND toDate(s.minute) = toDate(splitByChar(' ', {part:String})[2])
        GROUP BY tenant, hour, agent
    ) AS r
    GROUP BY tenant, hour, agent
)
WHERE more_calls = 0 AND notEmpty(missing)
