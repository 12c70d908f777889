"""SQL that converts tracereel's events into spans, with the attribute names of the SDK's spans."""

from collections.abc import Iterable
from typing import Final

from tracereel import semconv
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
}
"""Span attributes of fields that the SDK leaves out of the spans it exports."""

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


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(repr(value) for value in values)}]"


OPERATION_OF_TYPE: Final = (
    f"transform(event_type, {_list(OPERATIONS)}, {_list(OPERATIONS.values())}, '')"
)
"""SQL for the operation of an event type."""


def _text(raw: str) -> str:
    """Return SQL for a raw JSON value as an attribute: strings unquoted, others as JSON."""
    return f"""if(startsWith({raw}, '"'), JSONExtractString({raw}), {raw})"""


def _map(names: str, raws: str) -> str:
    return (
        f"mapFromArrays(arrayMap(n -> toLowCardinality(n), {names}),"
        f" arrayMap(r -> {_text('r')}, {raws}))"
    )


def _attributes() -> str:
    """Return SQL for the attributes; `fields` are the event's keys and raw values without nulls."""
    known = {**semconv.SPAN_ATTRIBUTES, **MORE_ATTRIBUTES}
    # For a model call, the model that responded is distinguished from the requested one.
    answered = {"llm_model": (semconv.ANSWERED_BY, "llm.model")}

    def pairs(place: int) -> str:
        first = {field: names[place] for field, names in known.items() if len(names) > place}
        usual = f"transform(f.1, {_list(first)}, {_list(first.values())}, '')"
        return (
            f"arrayMap(f -> (if(event_type = '{semconv.LLM_CALLED}' AND f.1 = 'llm_model',"
            f" '{answered['llm_model'][place]}', {usual}), f.2), fields)"
        )

    return (
        f"arrayFilter(p -> p.1 != '', arrayConcat({pairs(0)}, {pairs(1)},"
        f" if({OPERATION_OF_TYPE} = '', [], [('{semconv.OPERATION}', {OPERATION_OF_TYPE})])))"
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
        f" {_list(names)}, {_list(names.values())}, ''), f.2), fields))"
    )


_FIELDS: Final = "arrayFilter(f -> f.2 != 'null', JSONExtractKeysAndValuesRaw(payload))"
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
            event_type NOT IN {_list(_TYPES)}, '',
            has({_list(_PIPELINES)}, event_type), trim(concat('{semconv.INVOKE_WORKFLOW} ', pipeline_type)),
            has({_list(_EXECUTIONS)}, event_type), trim(concat('{semconv.INVOKE_AGENT} ', agent_name)),
            event_type = '{semconv.TOOL_CALLED}',
            trim(concat('{semconv.EXECUTE_TOOL} ', t.tool_name)),
            event_type = '{semconv.LLM_CALLED}', trim(concat('chat ', llm_model)),
            splitByChar('.', event_type)[2])"""


FRAGMENTS: Final = {
    "event_fields": _FIELDS,
    "untold_spans_query": rendered(
        "other_spans.sql",
        attributes=_map("pairs.1", "pairs.2"),
        attribute_pairs=_attributes(),
        fields=_FIELDS,
        pipelines=_list(_PIPELINES),
        executions=_list(_EXECUTIONS),
        opening=_list(_OPEN),
        types=_list(_TYPES),
    ),
    "span_name": _SPAN_NAME,
    "own_attribute_pairs": _attributes(),
    "own_attributes": _map("pairs.1", "pairs.2"),
    "own_mark_pairs": _marks(),
    "own_mark_types": _list(semconv.SPAN_EVENTS),
    "own_mark_names": _list(name for name, _ in semconv.SPAN_EVENTS.values()),
    "own_client_type": repr(semconv.LLM_CALLED),
}
"""Values of `$name` in the `.sql` files."""
