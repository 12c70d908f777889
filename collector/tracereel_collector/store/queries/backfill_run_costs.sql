-- Adds to the sums of runs the tokens without a cost that are missing there: those of their events and
-- spans, less those that were summed up. Where nothing is missing it adds nothing, however often it is run.
-- A run whose events are not all summed up, or not all there, is left as it is: the rest is on its way.
INSERT INTO trace_summaries
    (tenant, hour, trace_id, day, started, ended, confidence, call_unpriced, span_unpriced)
SELECT
    tenant, hour, trace_id, {part:Date} AS day, assumeNotNull(first), assumeNotNull(last), 2,
    CAST(mapFilter((k, n) -> n > 0 AND more_events = 0, calls), 'Map(String, UInt64)') AS missing_calls,
    CAST(mapFilter((k, n) -> n > 0 AND more_spans = 0, of_spans), 'Map(String, UInt64)') AS missing_spans
FROM
(
    SELECT
        tenant, hour, trace_id, min(r.started) AS first, max(r.ended) AS last,
        sum(r.events) AS more_events, sum(r.spans) AS more_spans,
        sumMap(r.call_unpriced) AS calls, sumMap(r.span_unpriced) AS of_spans
    FROM
    (
        SELECT
            tenant, toStartOfHour($event_in_reach) AS hour, trace_id, NULL AS started, NULL AS ended,
            toInt64(count()) AS events, toInt64(0) AS spans, $none AS call_unpriced, $none AS span_unpriced
        FROM agent_events
        WHERE toDate(ingested_at) = {part:Date} AND cityHash64(trace_id) % {slices:UInt64} = {slice:UInt64}
        GROUP BY tenant, hour, trace_id
        UNION ALL
        SELECT
            tenant, hour, trace_id, NULL, NULL, 0, 0, CAST(sumMap(unpriced), 'Map(String, Int64)'), $none
        FROM
        (
            SELECT tenant, trace_id, $unpriced_columns
                toStartOfHour($event_in_reach) AS hour
            FROM agent_events
            -- Before anything else: payloads are large, and read for these alone.
            PREWHERE toDate(ingested_at) = {part:Date}
                AND cityHash64(trace_id) % {slices:UInt64} = {slice:UInt64} AND $may_be_unpriced
        )
        GROUP BY tenant, hour, trace_id
        UNION ALL
        SELECT
            TenantId, toStartOfHour($span_in_reach) AS hour, TraceId, NULL, NULL, 0, toInt64(count()),
            $none, CAST(sumMap($unpriced_of_spans), 'Map(String, Int64)')
        FROM otel_spans
        WHERE $from_otlp AND toDate(IngestedAt) = {part:Date}
            AND cityHash64(TraceId) % {slices:UInt64} = {slice:UInt64}
        GROUP BY TenantId, hour, TraceId
        UNION ALL
        SELECT
            tenant, hour, trace_id, min(s.started), max(s.ended),
            -toInt64(sum(s.events)), -toInt64(sum(s.spans)),
            mapApply((k, n) -> (k, -toInt64(n)), sumMap(s.call_unpriced)),
            mapApply((k, n) -> (k, -toInt64(n)), sumMap(s.span_unpriced))
        FROM trace_summaries AS s
        WHERE s.day = {part:Date} AND cityHash64(s.trace_id) % {slices:UInt64} = {slice:UInt64}
        GROUP BY tenant, hour, trace_id
    ) AS r
    GROUP BY tenant, hour, trace_id
)
WHERE notEmpty(missing_calls) OR notEmpty(missing_spans)
