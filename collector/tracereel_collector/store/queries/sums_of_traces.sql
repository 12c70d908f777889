-- What the list of runs adds up of the spans of some traces, earlier corrections included.
SELECT
    trace_id,
    sum(s.spans) AS of_spans,
    sum(s.settled) AS known,
    sum(s.span_calls) AS calls,
    sum(s.span_tokens) AS tokens,
    sum(s.span_nano_usd) AS nano_usd,
    sum(s.span_errors) AS errors,
    sumMap(s.span_unpriced) AS unpriced,
    toString(min(s.hour)) AS first_hour,
    toString(max(s.day)) AS last_day,
    toString(min(s.started)) AS first_at,
    toString(max(s.ended)) AS last_at
FROM trace_summaries AS s
WHERE s.tenant = {tenant:String} AND s.trace_id IN {ids:Array(String)} AND (s.spans > 0 OR s.settled != 0)
GROUP BY trace_id
