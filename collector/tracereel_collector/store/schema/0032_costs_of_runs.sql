-- Lists know what runs cost that nobody sent a cost of: the tokens of such calls, by model, priced when asked.
ALTER TABLE trace_summaries
    ADD COLUMN IF NOT EXISTS call_unpriced SimpleAggregateFunction(sumMap, Map(String, UInt64)) CODEC(ZSTD(1))
    COMMENT 'tokens of model calls without a cost: provider, tab, model, tab, kind of token';

ALTER TABLE trace_summaries
    ADD COLUMN IF NOT EXISTS span_unpriced SimpleAggregateFunction(sumMap, Map(String, UInt64)) CODEC(ZSTD(1))
    COMMENT 'the same of spans that came over OTLP';

ALTER TABLE agent_events_to_trace_summaries MODIFY QUERY
$event_summaries_with_costs;

ALTER TABLE otel_spans_to_trace_summaries MODIFY QUERY
$span_summaries_with_costs;
