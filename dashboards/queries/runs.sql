SELECT
    started, status, name, run, seconds, events, errors, retries, fallbacks, confidence, tokens, cost, prompt
FROM
(
    SELECT
        min(trace_summaries.started) AS started,
        multiIf(
            sum(pipelines_open) > 0, 'running',
            startsWith(max(closing), '2'), substring(max(closing), 18),
            sum(executions_open) > 0, 'running',
            max(closing) != '', substring(max(closing), 18),
            'running') AS status,
        splitByChar('\t', substring(max(opening), 18))[1] AS name,
        trace_id AS run,
        (toUnixTimestamp64Milli(max(ended)) - toUnixTimestamp64Milli(min(trace_summaries.started))) / 1000 AS seconds,
        sum(trace_summaries.events) AS events,
        sum(trace_summaries.errors) + sum(span_errors) AS errors,
        sum(trace_summaries.retries) AS retries,
        sum(trace_summaries.fallbacks) AS fallbacks,
        if(min(trace_summaries.confidence) > 1, NULL, min(trace_summaries.confidence)) AS confidence,
        multiIf(
            sum(settled) != 0 AND sum(call_tokens) + sum(span_tokens) != 0, sum(call_tokens) + sum(span_tokens),
            sum(call_tokens) != 0, sum(call_tokens),
            sum(span_tokens) != 0, sum(span_tokens), sum(execution_tokens)) AS tokens,
        multiIf(
            sum(settled) != 0 AND sum(call_nano_usd) + sum(span_nano_usd) != 0, sum(call_nano_usd) + sum(span_nano_usd),
            sum(call_nano_usd) != 0, sum(call_nano_usd),
            sum(span_nano_usd) != 0, sum(span_nano_usd), sum(execution_nano_usd)) / 1e9 AS cost,
        splitByChar('\t', substring(max(opening), 18))[2] AS prompt
    FROM trace_summaries
    WHERE hour >= toStartOfHour($__fromTime) AND hour <= $__toTime
    GROUP BY trace_id
)
WHERE $__timeFilter(started) AND status IN (${status:sqlstring}) AND position(name, ${name:sqlstring}) > 0
ORDER BY started DESC LIMIT 500
