-- Scores as they came, one row a body; the view behind it decodes the lines.
CREATE TABLE IF NOT EXISTS scores_raw
(
    tenant String,
    first_sequence_number UInt64,
    received_unix_nano UInt64,
    body String
)
ENGINE = Null;

-- What people and programs think of runs, steps and sessions; of one id the latest telling counts.
CREATE TABLE IF NOT EXISTS score_tellings$local
(
    tenant LowCardinality(String),
    trace_id String COMMENT 'empty for the score of a session' CODEC(ZSTD(1)),
    session_key String COMMENT 'hash of the session id, the same for hashed ids' CODEC(ZSTD(1)),
    session_id String COMMENT 'of the score of a session' CODEC(ZSTD(1)),
    score_id String CODEC(ZSTD(1)),
    updated_at DateTime64(9, 'UTC') CODEC(ZSTD(1)),
    sequence_number UInt64 CODEC(ZSTD(1)),
    span_id String CODEC(ZSTD(1)),
    execution_id String CODEC(ZSTD(1)),
    agent_name LowCardinality(String),
    name LowCardinality(String),
    value_type LowCardinality(String) COMMENT 'numeric, boolean, categorical, or note: only a comment',
    number Nullable(Float64) COMMENT 'of a boolean 1 or 0' CODEC(ZSTD(1)),
    category String CODEC(ZSTD(1)),
    comment String CODEC(ZSTD(1)),
    source LowCardinality(String),
    author String CODEC(ZSTD(1))
)
ENGINE = ${replicated}ReplacingMergeTree(${replica_and}sequence_number)
ORDER BY (tenant, trace_id, session_key, score_id)
SETTINGS $merge_tree_settings;
$on_cluster CREATE TABLE IF NOT EXISTS score_tellings AS score_tellings$local
$on_cluster ENGINE = Distributed('$cluster', currentDatabase(), 'score_tellings$local', cityHash64(trace_id, session_key));

CREATE MATERIALIZED VIEW IF NOT EXISTS scores_to_score_tellings TO score_tellings AS
SELECT
    tenant,
    t.trace_id AS trace_id,
    t.session_key AS session_key,
    t.session_id AS session_id,
    t.id AS score_id,
    fromUnixTimestamp64Nano(toInt64(t.updated_unix_nano), 'UTC') AS updated_at,
    first_sequence_number + position - 1 AS sequence_number,
    t.span_id AS span_id,
    t.execution_id AS execution_id,
    t.agent_name AS agent_name,
    t.name AS name,
    t.value_type AS value_type,
    t.number AS number,
    t.category AS category,
    t.comment AS comment,
    t.source AS source,
    t.author AS author
FROM
(
    SELECT
        tenant,
        first_sequence_number,
        position,
        JSONExtract(line, 'Tuple(
            trace_id String, session_key String, session_id String, id String, updated_unix_nano UInt64, span_id String, execution_id String,
            agent_name String, name String, value_type String, number Nullable(Float64), category String,
            comment String, source String, author String)') AS t
    FROM scores_raw
    ARRAY JOIN
        splitByChar('\n', body) AS line,
        arrayEnumerate(splitByChar('\n', body)) AS position
);

-- What people read: each score once.
CREATE VIEW IF NOT EXISTS scores AS
SELECT * FROM score_tellings
ORDER BY sequence_number DESC
LIMIT 1 BY tenant, trace_id, session_key, score_id;
