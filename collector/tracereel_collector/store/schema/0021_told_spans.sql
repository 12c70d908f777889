-- Attributes of the spans that our own events tell are made when they are read. Making them while events
-- come in took more than everything else together, for spans that hardly anybody looks at.
ALTER TABLE otel_spans ADD COLUMN IF NOT EXISTS Told String CODEC(ZSTD(1))
    COMMENT 'the event that told it, of which its attributes are made; see whole_spans';

ALTER TABLE event_spans ADD COLUMN IF NOT EXISTS RunId String CODEC(ZSTD(1))
    COMMENT 'the run of the event, where its attributes are to be found; see event_attributes';

DROP VIEW IF EXISTS events_to_spans;

CREATE MATERIALIZED VIEW events_to_otel_spans TO otel_spans AS
$own_spans_query;

ALTER TABLE events_to_event_spans MODIFY QUERY
$bare_event_spans_query;

-- The table `otel_spans`, every span with its attributes.
CREATE VIEW whole_spans AS
SELECT * EXCEPT (event_type, fields, pairs) REPLACE (if(Told = '', SpanAttributes, $own_attributes) AS SpanAttributes)
FROM
(
    SELECT *, $own_attribute_pairs AS pairs
    FROM
    (
        SELECT *, JSONExtractString(Told, 'event_type') AS event_type,
            arrayFilter(f -> f.2 != 'null', JSONExtractKeysAndValuesRaw(Told)) AS fields
        FROM otel_spans
    )
);

-- Events, and what they put on a span.
CREATE VIEW event_attributes AS
SELECT * EXCEPT (fields, pairs), $own_attributes AS attributes
FROM
(
    SELECT *, $own_attribute_pairs AS pairs
    FROM
    (
        SELECT tenant, trace_id, sequence_number, ingested_at, event_type, payload, $event_fields AS fields
        FROM agent_events
    )
);

CREATE OR REPLACE VIEW otel_traces AS
SELECT * EXCEPT (Told) FROM whole_spans
ORDER BY Source DESC, Duration > 0 DESC, SequenceNumber DESC, Position DESC
LIMIT 1 BY TenantId, TraceId, SpanId;
