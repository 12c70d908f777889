-- Statistics of agents know what calls cost that nobody sent a cost of, as lists of runs do.
ALTER TABLE agent_minutes
    ADD COLUMN IF NOT EXISTS unpriced_tokens SimpleAggregateFunction(sumMap, Map(String, Int64)) CODEC(ZSTD(1))
    COMMENT 'tokens of model calls without a cost: provider, tab, model, tab, kind of token';

ALTER TABLE agent_hours
    ADD COLUMN IF NOT EXISTS unpriced_tokens SimpleAggregateFunction(sumMap, Map(String, Int64)) CODEC(ZSTD(1))
    COMMENT 'tokens of model calls without a cost: provider, tab, model, tab, kind of token';

ALTER TABLE agent_minutes_to_agent_hours MODIFY QUERY
SELECT
    tenant,
    toStartOfHour(agent_minutes.minute) AS minute,
    agent,
    month,
    $agent_sums_again,
    sumMap(agent_minutes.unpriced_tokens) AS unpriced_tokens
FROM agent_minutes
GROUP BY tenant, minute, agent, month;

ALTER TABLE agent_events_to_agent_minutes MODIFY QUERY
$event_agent_sums_with_costs;

ALTER TABLE otel_spans_to_agent_minutes MODIFY QUERY
$span_agent_sums_with_costs;
