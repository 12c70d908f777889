-- Columns of the runs found, for display.
SELECT
    run,
    toUnixTimestamp64Nano(min(s.started)) AS started_unix_nano,
    formatDateTime(min(s.started), '%Y-%m-%dT%H:%i:%S.%fZ') AS started_at,
    formatDateTime(max(s.ended), '%Y-%m-%dT%H:%i:%S.%fZ') AS ended_at,
    $duration_us / 1000 AS duration_ms,
    $status AS status,
    substring(max(s.opening), 18) AS opened,
    -- What ended a failed run has no answer if an earlier step has the latest one.
    if(status IN ('failed', 'cancelled') AND left(max(s.answer), 17) < left(max(s.closing), 17),
        '', substring(max(s.answer), 18)) AS answer,
    groupUniqArrayArray(16)(s.otel_trace_ids) AS otel_trace_ids,
    $events AS events,
    sum(s.spans) AS spans,
    $errors AS errors,
    sum(s.retries) AS retries,
    sum(s.fallbacks) AS fallbacks,
    sum(s.decisions) AS decisions,
    $model_calls AS model_calls,
    sum(s.tool_calls) AS tool_calls,
    $tokens AS tokens,
    $nano_usd AS nano_usd,
    $unpriced AS unpriced,
    min(s.confidence) AS lowest_confidence,
    max(s.parent_trace_id) AS parent,
    arraySort(groupUniqArrayArray(200)(s.tags)) AS tags
FROM ($rows) AS s
WHERE run IN {runs:Array(String)}
GROUP BY run
