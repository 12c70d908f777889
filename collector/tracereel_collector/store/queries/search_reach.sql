-- How far the runs of a tenant reach, and whether any has an id of its own in an OpenTelemetry trace.
SELECT toUnixTimestamp(min(hour)), toUnixTimestamp(max(hour)), max(notEmpty(otel_trace_ids))
FROM trace_summaries
WHERE tenant = {tenant:String}
