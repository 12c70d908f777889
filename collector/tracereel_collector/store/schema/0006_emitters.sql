-- Heartbeats of emitters as they arrived, one row per body; the view behind it decodes the lines.
CREATE TABLE IF NOT EXISTS heartbeats_raw
(
    tenant String,
    first_sequence_number UInt64,
    received_unix_nano UInt64,
    body String
)
ENGINE = Null;

-- The latest heartbeat of each emitter: by number, not by time, so that a clock set back hides none.
-- Retention removes emitters that were silent for 90 days. No TTL: it goes by the server's wall clock, and
-- one jump of that would remove them all.
CREATE TABLE IF NOT EXISTS emitters$local
(
    tenant LowCardinality(String),
    emitter_id String CODEC(ZSTD(1)),
    sequence_number UInt64 CODEC(ZSTD(1)),
    received_at DateTime64(9, 'UTC') CODEC(ZSTD(1)),
    sent_at DateTime64(9, 'UTC') CODEC(ZSTD(1)),
    started_at Nullable(DateTime64(9, 'UTC')) CODEC(ZSTD(1)),
    state LowCardinality(String),
    interval_seconds Float64 CODEC(ZSTD(1)),
    recorded UInt64 COMMENT 'the highest emitter_seq given out' CODEC(ZSTD(1)),
    delivered UInt64 CODEC(ZSTD(1)),
    rejected UInt64 CODEC(ZSTD(1)),
    spooled UInt64 CODEC(ZSTD(1)),
    dropped Map(String, UInt64) COMMENT 'events that were never numbered, by reason' CODEC(ZSTD(1)),
    service LowCardinality(String),
    host LowCardinality(String),
    pid UInt64 CODEC(ZSTD(1)),
    sdk_version LowCardinality(String)
)
ENGINE = ${replicated}ReplacingMergeTree(${replica_and}sequence_number)
ORDER BY (tenant, emitter_id)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS emitters AS emitters$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'emitters$local', cityHash64(emitter_id));

CREATE MATERIALIZED VIEW IF NOT EXISTS heartbeats_to_emitters TO emitters AS
SELECT
    tenant,
    t.emitter_id AS emitter_id,
    first_sequence_number + position - 1 AS sequence_number,
    received_at,
    ifNull(parseDateTime64BestEffortOrNull(t.sent_at, 9, 'UTC'), received_at) AS sent_at,
    parseDateTime64BestEffortOrNull(t.started_at, 9, 'UTC') AS started_at,
    t.state AS state,
    t.interval_seconds AS interval_seconds,
    t.recorded AS recorded,
    t.delivered AS delivered,
    t.rejected AS rejected,
    t.spooled AS spooled,
    t.dropped AS dropped,
    t.service AS service,
    t.host AS host,
    t.pid AS pid,
    t.sdk_version AS sdk_version
FROM
(
    SELECT
        tenant,
        first_sequence_number,
        position,
        fromUnixTimestamp64Nano(toInt64(received_unix_nano), 'UTC') AS received_at,
        JSONExtract(line, 'Tuple(
            emitter_id String, sent_at String, started_at String, state String,
            interval_seconds Float64, recorded UInt64, delivered UInt64, rejected UInt64,
            spooled UInt64, dropped Map(String, UInt64), service String, host String, pid UInt64,
            sdk_version String)') AS t
    FROM heartbeats_raw
    ARRAY JOIN
        splitByChar('\n', body) AS line,
        arrayEnumerate(splitByChar('\n', body)) AS position
);

-- What is known of an emitter's numbers: the highest claimed, which never falls back, and those stored:
-- exact, each once, and small because they follow each other. Removed 90 days after the last of either.
CREATE TABLE IF NOT EXISTS emitter_numbers$local
(
    tenant LowCardinality(String),
    emitter_id String CODEC(ZSTD(1)),
    service SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    last_at SimpleAggregateFunction(max, DateTime64(9, 'UTC')) COMMENT 'the last event' CODEC(ZSTD(1)),
    heard_at SimpleAggregateFunction(max, DateTime64(9, 'UTC')) COMMENT 'event or heartbeat' CODEC(ZSTD(1)),
    claimed SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)),
    rejected SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)),
    numbers AggregateFunction(groupBitmap, UInt64) CODEC(ZSTD(1))
)
ENGINE = ${replicated}AggregatingMergeTree($replica)
ORDER BY (tenant, emitter_id)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS emitter_numbers AS emitter_numbers$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'emitter_numbers$local', cityHash64(emitter_id));

CREATE MATERIALIZED VIEW IF NOT EXISTS agent_events_to_emitter_numbers TO emitter_numbers$local AS
SELECT
    tenant,
    toString(emitter_id) AS emitter_id,
    max(toString(service)) AS service,
    max(ingested_at) AS last_at,
    last_at AS heard_at,
    max(emitter_seq) AS claimed,
    toUInt64(0) AS rejected,
    groupBitmapState(emitter_seq) AS numbers
FROM agent_events$local AS agent_events
WHERE agent_events.emitter_id != ''
GROUP BY tenant, emitter_id;

CREATE MATERIALIZED VIEW IF NOT EXISTS emitters_to_emitter_numbers TO emitter_numbers$local AS
SELECT
    tenant,
    emitter_id,
    toString(service) AS service,
    toDateTime64(0, 9, 'UTC') AS last_at,
    received_at AS heard_at,
    recorded AS claimed,
    rejected,
    bitmapBuild(emptyArrayUInt64()) AS numbers
FROM emitters$local;
