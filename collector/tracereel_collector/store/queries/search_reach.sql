-- Time range of a tenant's runs, whether any differs from its OpenTelemetry trace id, and whether any
-- has tokens without a cost.
SELECT
    toUnixTimestamp(min(hour)),
    toUnixTimestamp(max(hour)),
    max(notEmpty(otel_trace_ids)),
    max(call_unpriced.size0 + span_unpriced.size0 > 0)
FROM trace_summaries
WHERE tenant = {tenant:String}
