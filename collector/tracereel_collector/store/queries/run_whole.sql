-- A run and its surroundings in one query, because planning is most of the cost of three.
-- Its events (unordered, with duplicates: the caller sorts and deduplicates by event id), its child
-- runs, and whether other instrumentations sent spans of its trace. The latter two are rows without an
-- arrival time, with the id of a run or with an empty text.
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
-- The exact types of the columns above, so that no conversion is needed.
SELECT toUInt64(0), '', toInt64(0), toUInt64(0), trace_id
FROM run_links
WHERE tenant = {tenant:String} AND parent_trace_id = {trace_id:String}
LIMIT {most:UInt32}
UNION ALL
SELECT toUInt64(0), '', toInt64(0), toUInt64(0), ''
FROM otel_spans
WHERE TenantId = {tenant:String} AND TraceId = {otel_trace_id:String} AND Source = 'otlp'
LIMIT 1
-- Parts without the run are skipped before reading, so usually one part is left, for which threads
-- cost more than they save. The settings apply to the whole query.
SETTINGS use_skip_indexes_on_data_read = 0, max_threads_for_indexes = 1, max_threads = 1
