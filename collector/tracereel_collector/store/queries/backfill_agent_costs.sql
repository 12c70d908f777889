-- Adds to the sums of agents the tokens without a cost that are missing there, as that of runs does.
-- A minute whose calls and their tokens are not those that are stored is left as it is.
INSERT INTO agent_minutes (tenant, minute, agent, month, unpriced_tokens)
SELECT tenant, minute, agent, toDate(splitByChar(' ', {part:String})[1]) AS month, missing
FROM
(
    SELECT
        tenant, minute, agent, sum(r.calls) AS more_calls, sum(r.used) AS more_used,
        mapFilter((k, n) -> n != 0, sumMap(r.tokens)) AS missing
    FROM
    (
        SELECT
            toString(tenant) AS tenant, toStartOfMinute($event_in_reach) AS minute, toString(agent_name) AS agent,
            toInt64(count()) AS calls, sum(toInt64(ifNull(llm_tokens_used, 0))) AS used, $none AS tokens
        FROM agent_events
        WHERE toStartOfMonth(ingested_at) = toDate(splitByChar(' ', {part:String})[1])
            AND toDate($event_in_reach) = toDate(splitByChar(' ', {part:String})[2])
            AND intDiv(toUnixTimestamp($event_in_reach), 60) % {slices:UInt64} = {slice:UInt64}
            AND $is_call AND agent_name != ''
        GROUP BY tenant, minute, agent
        UNION ALL
        SELECT tenant, minute, agent, 0, 0, sumMap(CAST(unpriced, 'Map(String, Int64)'))
        FROM
        (
            SELECT toString(tenant) AS tenant, toString(agent_name) AS agent, $unpriced_columns
                toStartOfMinute($event_in_reach) AS minute
            FROM agent_events
            -- Before anything else: payloads are large, and read for these alone.
            PREWHERE toStartOfMonth(ingested_at) = toDate(splitByChar(' ', {part:String})[1])
                AND toDate($event_in_reach) = toDate(splitByChar(' ', {part:String})[2])
                AND intDiv(toUnixTimestamp($event_in_reach), 60) % {slices:UInt64} = {slice:UInt64}
                AND $may_be_unpriced AND agent_name != ''
        )
        GROUP BY tenant, minute, agent
        UNION ALL
        SELECT
            toString(TenantId), toStartOfMinute($span_in_reach) AS minute, toString(AgentName),
            sum(toInt64($is_span_of_call)), sum(toInt64(ifNull(TotalTokens, 0))),
            sumMap(CAST($unpriced_of_spans, 'Map(String, Int64)'))
        FROM otel_spans
        WHERE $spans_of_agents AND toStartOfMonth(IngestedAt) = toDate(splitByChar(' ', {part:String})[1])
            AND toDate($span_in_reach) = toDate(splitByChar(' ', {part:String})[2])
            AND intDiv(toUnixTimestamp($span_in_reach), 60) % {slices:UInt64} = {slice:UInt64}
        GROUP BY TenantId, minute, AgentName
        UNION ALL
        SELECT
            toString(tenant), minute, toString(agent), -sum(s.model_calls), -sum(s.call_tokens),
            mapApply((k, n) -> (k, -n), sumMap(s.unpriced_tokens))
        FROM agent_minutes AS s
        WHERE s.month = toDate(splitByChar(' ', {part:String})[1])
            AND toDate(s.minute) = toDate(splitByChar(' ', {part:String})[2])
            AND intDiv(toUnixTimestamp(s.minute), 60) % {slices:UInt64} = {slice:UInt64}
        GROUP BY tenant, minute, agent
    ) AS r
    GROUP BY tenant, minute, agent
)
WHERE more_calls = 0 AND more_used = 0 AND notEmpty(missing)
