-- What was said in a run, for free text: prompts, outputs, reasoning, errors, in a row a run and batch.
-- The index alone answers for words; the text is read for phrases.
CREATE TABLE trace_texts
(
    tenant LowCardinality(String),
    hour DateTime('UTC') COMMENT 'of the events, by their own time',
    trace_id String CODEC(ZSTD(1)),
    day Date COMMENT 'of arrival',
    text String CODEC(ZSTD(1)),
    INDEX words text TYPE text(tokenizer = 'splitByNonAlpha', preprocessor = lowerUTF8(text))
)
ENGINE = MergeTree
PARTITION BY day
ORDER BY (tenant, hour, trace_id)
SETTINGS $merge_tree_settings;

TRUNCATE TABLE trace_texts;

-- What was stored before this table existed.
INSERT INTO trace_texts
$event_texts;

INSERT INTO trace_texts
$span_texts;

CREATE MATERIALIZED VIEW agent_events_to_trace_texts TO trace_texts AS
$event_texts;

CREATE MATERIALIZED VIEW otel_spans_to_trace_texts TO trace_texts AS
$span_texts;
