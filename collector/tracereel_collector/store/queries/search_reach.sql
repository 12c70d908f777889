-- How far the runs of a tenant reach, whether any has an id of its own in an OpenTelemetry trace, and
-- whether any has tokens that nobody sent a cost of.
SELECT
    toUnixTimestamp(min(hour)),
    toUnixTimestamp(max(hour)),
    max(notEmpty(otel_trace_ids)),
    max(call_unpriced.size0 + span_unpriced.size0 > 0)
FROM trace_summaries
WHERE tenant = {tenant:String}
