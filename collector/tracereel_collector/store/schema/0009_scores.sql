-- Scores as they came, one row a body; the view behind it decodes the lines.
CREATE TABLE scores_in
(
    tenant String,
    first_sequence_number UInt64,
    received_unix_nano UInt64,
    body String
)
ENGINE = Null;

-- What people and programs think of runs and steps; of one id the latest telling counts.
CREATE TABLE score_tellings
(
    tenant LowCardinality(String),
    trace_id String CODEC(ZSTD(1)),
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
ENGINE = ReplacingMergeTree(sequence_number)
ORDER BY (tenant, trace_id, score_id)
SETTINGS $merge_tree_settings;

CREATE MATERIALIZED VIEW scores_to_score_tellings TO score_tellings AS
SELECT
    tenant,
    t.trace_id AS trace_id,
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
            trace_id String, id String, updated_unix_nano UInt64, span_id String, execution_id String,
            agent_name String, name String, value_type String, number Nullable(Float64), category String,
            comment String, source String, author String)') AS t
    FROM scores_in
    ARRAY JOIN
        splitByChar('\n', body) AS line,
        arrayEnumerate(splitByChar('\n', body)) AS position
);

-- What people read: each score once.
CREATE VIEW scores AS
SELECT * FROM score_tellings
ORDER BY sequence_number DESC
LIMIT 1 BY tenant, trace_id, score_id;
