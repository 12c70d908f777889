"""SQL that makes spans of our own events without making their attributes, which cost more than the rest.

What the canonical columns say comes straight from the fields of the event. The event itself goes with
the span, as `Told`, and the attributes are made of it when somebody reads them.
"""

from typing import Final

from tracereel import semconv
from tracereel_collector.store.dialects import own
from tracereel_collector.store.dialects.columns import first, translation
from tracereel_collector.store.dialects.names import SLOTS

_KNOWN: Final = {**semconv.SPAN_ATTRIBUTES, **own.MORE_ATTRIBUTES}
_IS_CALL: Final = f"event_type = '{semconv.LLM_CALLED}'"
_SAID_ELSEWHERE: Final = ("span_name", "error_message", "stack_trace")


def _sources() -> dict[str, list[tuple[str, str]]]:
    """Attribute → the fields that say it, and SQL for what each says."""
    found: dict[str, list[tuple[str, str]]] = {}
    for field, names in _KNOWN.items():
        for place, name in enumerate(names):
            said = f"t.{field}"
            if field == "llm_model" and place == 0:
                # Of a model call, the model that answered is told from the one that was asked for.
                found.setdefault(semconv.ANSWERED_BY, []).append(
                    (field, f"if({_IS_CALL}, {said}, '')")
                )
                said = f"if({_IS_CALL}, '', {said})"
            found.setdefault(name, []).append((field, said))
    found.setdefault(semconv.OPERATION, []).append(("operation", own.OPERATION_OF_TYPE))
    return found


_SOURCES: Final = _sources()
_SAID: Final = {
    f"said_{slot}": first(*(sql for name in names for _, sql in _SOURCES.get(name, [])))
    for slot, names in SLOTS.items()
}
_FIELDS: Final = sorted(
    {field for names in SLOTS.values() for name in names for field, _ in _SOURCES.get(name, [])}
)


def _own_spans() -> str:
    """A query on `agent_events` for the rows of `otel_spans` that events tell whole."""
    types = ", ".join(f"{name} String" for name in (*_FIELDS, *_SAID_ELSEWHERE))
    said = ",\n        ".join(f"{sql} AS {name}" for name, sql in _SAID.items())
    return translation(
        f"""(
    SELECT
        fromUnixTimestamp64Nano(t.span_start_unix_nano) AS Timestamp,
        otel_trace_id AS TraceId,
        span_id AS SpanId,
        parent_span_id AS ParentSpanId,
        toLowCardinality(t.span_name) AS SpanName,
        if({_IS_CALL}, 'Client', 'Internal') AS SpanKind,
        service AS ServiceName,
        CAST(map('service.name', service) AS Map(LowCardinality(String), String)) AS ResourceAttributes,
        'tracereel' AS ScopeName,
        toUInt64(greatest(t.span_end_unix_nano - t.span_start_unix_nano, 0)) AS Duration,
        if(status = 'failed', 'Error', 'Unset') AS StatusCode,
        if(status = 'failed', concat(error_type, if(t.error_message = '', '', ': '), t.error_message), '')
            AS StatusMessage,
        if(status = 'failed', [fromUnixTimestamp64Nano(t.span_end_unix_nano)], []) AS `Events.Timestamp`,
        if(status = 'failed', [toLowCardinality('exception')], []) AS `Events.Name`,
        if(status = 'failed', [CAST(mapFilter((k, v) -> v != '', map(
            'exception.type', toString(error_type), 'exception.message', t.error_message,
            'exception.stacktrace', t.stack_trace)) AS Map(LowCardinality(String), String))], [])
            AS `Events.Attributes`,
        tenant AS TenantId,
        sequence_number AS SequenceNumber,
        ingested_at AS IngestedAt,
        'event' AS Source,
        payload AS Told,
        {said}
    FROM
    (
        SELECT
            tenant, sequence_number, ingested_at, event_type, otel_trace_id, span_id, parent_span_id,
            service, error_type, status, payload,
            JSONExtract(payload, 'Tuple({types},
                span_start_unix_nano Int64, span_end_unix_nano Int64)') AS t
        FROM agent_events
        WHERE span_id != '' AND startsWith(event_type, 'agent.')
            AND position(payload, '"span_start_unix_nano"') > 0
    )
    WHERE t.span_start_unix_nano > 0 AND t.span_name != ''
)""",
        said=True,
    )


FRAGMENTS: Final = {"own_spans_query": _own_spans()}
"""What the `.sql` files call `$name`."""
