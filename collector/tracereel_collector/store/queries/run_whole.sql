-- A run and what else belongs to it, in one question: to plan three is most of what three would cost.
-- Its events (in no order, and all that were stored: both are the reader's work, which knows their ids
-- anyway), the runs that name it as their parent, and whether others sent spans of its trace: rows
-- without a time of arrival, with the id of a run or with nothing.
SELECT
    sequence_number,
    formatDateTime(ingested_at, '%Y-%m-%dT%H:%i:%S.%fZ') AS ingested,
    toUnixTimestamp64Nano(timestamp) AS unix_nano,
    hlc,
    payload
FROM agent_events
WHERE tenant = {tenant:String} AND trace_id = {trace_id:String}
LIMIT {limit:UInt32}
UNION ALL
-- Of the types that the columns have: nothing is left to be converted.
SELECT toUInt64(0), '', toInt64(0), toUInt64(0), trace_id
FROM run_links
WHERE tenant = {tenant:String} AND parent_trace_id = {trace_id:String}
LIMIT {most:UInt32}
UNION ALL
SELECT toUInt64(0), '', toInt64(0), toUInt64(0), ''
FROM otel_spans
WHERE TenantId = {tenant:String} AND TraceId = {otel_trace_id:String} AND Source = 'otlp'
LIMIT 1
-- Parts without the run are left out before anything is read, which then is one part most often: threads
-- would cost more than they do. These are of the whole question.
SETTINGS use_skip_indexes_on_data_read = 0, max_threads_for_indexes = 1, max_threads = 1
