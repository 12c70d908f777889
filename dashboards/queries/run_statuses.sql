SELECT
    $__timeInterval(started) AS time,
    countIf(status = 'success') AS success,
    countIf(status = 'partial_success') AS partial,
    countIf(status = 'failed') AS failed,
    countIf(status NOT IN ('success', 'partial_success', 'failed', 'running')) AS others,
    countIf(status = 'running') AS running
FROM
(
    SELECT
        min(trace_summaries.started) AS started,
        multiIf(
            sum(pipelines_open) > 0, 'running',
            startsWith(max(closing), '2'), substring(max(closing), 18),
            sum(executions_open) > 0, 'running',
            max(closing) != '', substring(max(closing), 18),
            'running') AS status
    FROM trace_summaries
    WHERE hour >= toStartOfHour($__fromTime) AND hour <= $__toTime
    GROUP BY trace_id
)
WHERE $__timeFilter(started)
GROUP BY time ORDER BY time
