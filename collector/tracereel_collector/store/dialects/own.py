"""SQL that derives spans from tracereel's events, with the attribute names of the SDK's spans.

Spans are not stored twice: an event that closes a span contains all of it. Its attributes and canonical
columns are calculated at read time, which is rare; at insert time they cost more than everything else
together.
"""

from typing import Final

from tracereel import semconv
from tracereel_collector.store.dialects.columns import (
    COLUMNS,
    array,
    first,
    kind_of,
    provider_of,
    translation,
)
from tracereel_collector.store.dialects.names import SLOTS
from tracereel_collector.store.template import rendered

MORE_ATTRIBUTES: Final[dict[str, tuple[str, ...]]] = {
    "attempt": ("tracereel.attempt",),
    "trace_id": (semconv.SPAN_TRACE_ID,),
    "session_id": (semconv.SPAN_SESSION_ID, semconv.SPAN_CONVERSATION_ID),
    "user_id": (semconv.SPAN_USER_ID,),
    "llm_cache_creation_tokens": ("gen_ai.usage.cache_write.input_tokens",),
    "total_llm_tokens": ("llm.tokens_used",),
    "total_llm_cost_usd": ("llm.cost_usd",),
    "input_messages": ("gen_ai.input.messages",),
    "output_messages": ("gen_ai.output.messages",),
    "arguments": ("gen_ai.tool.call.arguments",),
    "result": ("gen_ai.tool.call.result",),
    "query": ("gen_ai.retrieval.query.text",),
    "documents": ("gen_ai.retrieval.documents",),
    "tool_definitions": ("gen_ai.tool.definitions",),
    "content_bytes": ("tracereel.content_bytes",),
}
"""Span attributes of fields that the SDK leaves out of the spans it exports."""

_KNOWN: Final = {**semconv.SPAN_ATTRIBUTES, **MORE_ATTRIBUTES}
OPERATIONS: Final = {
    semconv.EXECUTION_COMPLETED: semconv.INVOKE_AGENT,
    semconv.EXECUTION_FAILED: semconv.INVOKE_AGENT,
    semconv.EXECUTION_CANCELLED: semconv.INVOKE_AGENT,
    semconv.PIPELINE_COMPLETED: semconv.INVOKE_WORKFLOW,
    semconv.TOOL_CALLED: semconv.EXECUTE_TOOL,
    semconv.RETRIEVAL_COMPLETED: semconv.RETRIEVAL,
    semconv.STEP_COMPLETED: semconv.STEP,
}
"""Operation that an event completes, if no field has it."""
_OPERATION_OF_TYPE: Final = (
    f"transform(event_type, {array(OPERATIONS)}, {array(OPERATIONS.values())}, '')"
)
"""SQL for the operation of an event type."""


def _attribute_pairs() -> str:
    """Return SQL for the attributes; `fields` are the event's keys and raw values without nulls."""
    # For a model call, the model that responded is distinguished from the requested one.
    answered = (semconv.ANSWERED_BY, "llm.model")

    def pairs(place: int) -> str:
        named = {field: names[place] for field, names in _KNOWN.items() if len(names) > place}
        usual = f"transform(f.1, {array(named)}, {array(named.values())}, '')"
        return (
            f"arrayMap(f -> (multiIf(event_type = '{semconv.LLM_CALLED}' AND f.1 = 'llm_model',"
            f" '{answered[place]}', f.1 = '{semconv.PIPELINE_FIELD}'"
            f" AND event_type != '{semconv.PIPELINE_COMPLETED}', '', {usual}), f.2), fields)"
        )

    return (
        f"arrayFilter(p -> p.1 != '', arrayConcat({pairs(0)}, {pairs(1)},"
        f" if({_OPERATION_OF_TYPE} = '', [], [('{semconv.OPERATION}', {_OPERATION_OF_TYPE})])))"
    )


def _marks() -> str:
    """Return SQL for the span event attributes of a retry, fallback or decision."""
    names = {
        f"{event_type}/{field}": attribute
        for event_type, (_, fields) in semconv.SPAN_EVENTS.items()
        for field, attribute in fields.items()
    }
    return (
        "arrayFilter(p -> p.1 != '', arrayMap(f -> (transform(concat(event_type, '/', f.1),"
        f" {array(names)}, {array(names.values())}, ''), f.2), fields))"
    )


_ATTRIBUTE_PAIRS: Final = _attribute_pairs()
# Raw JSON values become attributes: strings are unquoted, others stay JSON.
_ATTRIBUTES: Final = (
    "mapFromArrays(arrayMap(n -> toLowCardinality(n), pairs.1),"
    """ arrayMap(r -> if(startsWith(r, '"'), JSONExtractString(r), r), pairs.2))"""
)
_EVENT_FIELDS: Final = "arrayFilter(f -> f.2 != 'null', JSONExtractKeysAndValuesRaw(payload))"
_OPEN: Final = (semconv.EXECUTION_STARTED, semconv.PIPELINE_STARTED)
_PIPELINES: Final = (semconv.PIPELINE_STARTED, semconv.PIPELINE_COMPLETED)
_EXECUTIONS: Final = (
    semconv.EXECUTION_STARTED,
    semconv.EXECUTION_COMPLETED,
    semconv.EXECUTION_FAILED,
    semconv.EXECUTION_CANCELLED,
)


_TYPES: Final = (*_EXECUTIONS, *_PIPELINES, *sorted(semconv.CALLS))
"""Types of events from which a span can be derived."""


_SPAN_NAME: Final = f"""multiIf(
            t.span_name != '' AND startsWith(event_type, 'agent.'), t.span_name,
            event_type NOT IN {array(_TYPES)}, '',
            has({array(_PIPELINES)}, event_type), trim(concat('{semconv.INVOKE_WORKFLOW} ', pipeline_type)),
            has({array(_EXECUTIONS)}, event_type), trim(concat('{semconv.INVOKE_AGENT} ', agent_name)),
            event_type = '{semconv.TOOL_CALLED}',
            trim(concat('{semconv.EXECUTE_TOOL} ', t.tool_name)),
            event_type = '{semconv.LLM_CALLED}', trim(concat('chat ', llm_model)),
            splitByChar('.', event_type)[2])"""

_IS_CALL: Final = f"event_type = '{semconv.LLM_CALLED}'"
CLOSES: Final = "span_id != '' AND span_began > 0 AND span_name != ''"
_BASE: Final = (
    *("Timestamp", "TraceId", "SpanId", "ParentSpanId", "TraceState", "SpanName", "SpanKind"),
    *(
        "ServiceName",
        "ResourceAttributes",
        "ScopeName",
        "ScopeVersion",
        "SpanAttributes",
        "Duration",
    ),
    *("StatusCode", "StatusMessage", "Events.Timestamp", "Events.Name", "Events.Attributes"),
    *("Links.TraceId", "Links.SpanId", "Links.TraceState", "Links.Attributes"),
    *("TenantId", "SequenceNumber", "Position", "IngestedAt", "Source"),
)
SHORT_VALUE: Final = 100
"""Maximum bytes of an attribute that is never stored among the content of its span."""
_WHOLE: Final = {
    "SpanAttributes": "mapConcat(otel_spans.SpanAttributes, otel_spans.ContentAttributes) AS SpanAttributes"
}
SPAN_COLUMNS: Final = ", ".join(
    _WHOLE.get(name, f"`{name}`") for name in (*_BASE, *COLUMNS, "AttributeTypes")
)
"""Columns of `otel_spans`, in table order, with all attributes in one."""
_TYPED: Final = ", ".join(
    (
        *(f"`{name}`" for name in _BASE),
        # Cast to the table's types, as an insert would do.
        *(f"CAST({name} AS {kind}) AS {name}" for name, (kind, _, _) in COLUMNS.items()),
        "AttributeTypes",
    )
)


def attributes_with(value: str) -> str:
    """Return the column of `whole_spans` that has attributes of this length."""
    return "ShortAttributes" if len(value.encode()) <= SHORT_VALUE else "SpanAttributes"


def _sources() -> dict[str, list[tuple[str, str]]]:
    """Return for each attribute its fields and the SQL of their values."""
    found: dict[str, list[tuple[str, str]]] = {}
    for field, names in _KNOWN.items():
        for place, name in enumerate(names):
            said = f"t.{field}"
            if field == "llm_model" and place == 0:
                # For a model call, the model that responded is distinguished from the requested one.
                found.setdefault(semconv.ANSWERED_BY, []).append(
                    (field, f"if({_IS_CALL}, {said}, '')")
                )
                said = f"if({_IS_CALL}, '', {said})"
            found.setdefault(name, []).append((field, said))
    found.setdefault(semconv.OPERATION, []).append(("operation", _OPERATION_OF_TYPE))
    return found


_SOURCES: Final = _sources()
_SAID: Final = {
    f"said_{slot}": first(*(sql for name in names for _, sql in _SOURCES.get(name, [])))
    for slot, names in SLOTS.items()
}
_SLOT_FIELDS: Final = sorted(
    {field for names in SLOTS.values() for name in names for field, _ in _SOURCES.get(name, [])}
)


_CLOSED_SPANS: Final = rendered(
    "closed_spans.sql",
    attributes=_ATTRIBUTES,
    attribute_pairs=_ATTRIBUTE_PAIRS,
    fields=_EVENT_FIELDS,
    types=", ".join(f"{name} String" for name in (*_SLOT_FIELDS, "error_message", "stack_trace")),
    said=",\n        ".join(f"{sql} AS {name}" for name, sql in _SAID.items()),
    closes=CLOSES,
)
"""Complete spans of `agent_events`, as rows of `otel_spans`."""

FRAGMENTS: Final = {
    "event_fields": _EVENT_FIELDS,
    "untold_spans_query": rendered(
        "other_spans.sql",
        attributes=_ATTRIBUTES,
        attribute_pairs=_ATTRIBUTE_PAIRS,
        fields=_EVENT_FIELDS,
        pipelines=array(_PIPELINES),
        executions=array(_EXECUTIONS),
        opening=array(_OPEN),
        types=array(_TYPES),
    ),
    "span_name": _SPAN_NAME,
    "own_attributes": _ATTRIBUTES,
    "own_mark_pairs": _marks(),
    "own_mark_types": array(semconv.SPAN_EVENTS),
    "own_mark_names": array(name for name, _ in semconv.SPAN_EVENTS.values()),
    "own_client_type": repr(semconv.LLM_CALLED),
    "span_columns": SPAN_COLUMNS,
    "told_span_columns": _TYPED,
    "told_spans_query": translation(_CLOSED_SPANS, said=True),
    # Planned in every insert: a short form of the columns above for model calls.
    "told_closes": CLOSES,
    "told_provider": provider_of("llm_provider"),
    "told_kind": kind_of("lower(JSONExtractString(payload, 'operation'))"),
}
"""Values of `$name` in the `.sql` files."""
