-- OpenTelemetry traces with spans that came after they were settled, or events of their runs; the smallest first.
-- A trace without spans was deleted while it was settled.
-- Rows of the last two days of arrival are looked at, counted from the newest row, or from today if a clock
-- that was wrong has dated rows later.
SELECT tenant, trace, sum(spans) AS of_spans, sum(events) AS of_events, sum(settled) AS known
FROM
(
    SELECT tenant, trace_id AS trace, spans, toUInt64(0) AS events, settled
    FROM trace_summaries
    WHERE day >= (SELECT least(max(day), today()) - 1 FROM trace_summaries) AND (spans > 0 OR settled != 0)
    UNION ALL
    SELECT
        tenant, arrayJoin(if(empty(otel_trace_ids), [trace_id], otel_trace_ids)) AS trace,
        toUInt64(0), events, toInt64(0)
    FROM trace_summaries
    WHERE day >= (SELECT least(max(day), today()) - 1 FROM trace_summaries) AND events > 0
      AND trace GLOBAL IN
      (
          SELECT trace_id FROM trace_summaries
          WHERE day >= (SELECT least(max(day), today()) - 1 FROM trace_summaries) AND spans > 0
      )
)
WHERE cityHash64(trace) % {members:UInt32} = {member:UInt32}
GROUP BY tenant, trace
HAVING if(of_spans > 0, toInt64(of_spans + of_events) != known, known != 0)
ORDER BY of_spans, tenant, trace
LIMIT {limit:UInt32}
