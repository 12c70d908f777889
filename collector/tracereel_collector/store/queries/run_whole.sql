-- A run and what else belongs to it, in one question: to plan three is most of what three would cost.
-- Its events (in no order, and all that were stored: both are the reader's work, which knows their ids
-- anyway), the runs that name it as their parent, and whether others sent spans of its trace.
SELECT
    sequence_number,
    formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    toUnixTimestamp64Nano(timestamp) AS unix_nano,
    hlc,
    payload,
    'event' AS what
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {trace_id:String}
LIMIT {limit:UInt32}
UNION ALL
SELECT 0, '', 0, 0, trace_id, 'child'
FROM run_links
WHERE tenant = {tenant:String} AND parent_trace_id = {trace_id:String}
LIMIT {most:UInt32}
UNION ALL
SELECT 0, '', 0, 0, '', 'spans'
FROM otel_spans
WHERE TenantId = {tenant:String} AND TraceId = {otel_trace_id:String} AND Source = 'otlp'
LIMIT 1
