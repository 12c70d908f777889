"""SQL that makes spans of our own events, with the names our SDK puts on the spans it starts itself."""

from collections.abc import Iterable
from typing import Final

from tracereel import semconv

_MORE: Final[dict[str, tuple[str, ...]]] = {
    "attempt": ("tracereel.attempt",),
    "trace_id": (semconv.SPAN_TRACE_ID,),
    "session_id": (semconv.SPAN_SESSION_ID, semconv.SPAN_CONVERSATION_ID),
    "user_id": (semconv.SPAN_USER_ID,),
    "llm_cache_write_tokens": ("gen_ai.usage.cache_write.input_tokens",),
    "total_llm_tokens": ("llm.tokens_used",),
    "total_llm_cost_usd": ("llm.cost_usd",),
    "input_messages": ("gen_ai.input.messages",),
    "output_messages": ("gen_ai.output.messages",),
    "arguments": ("gen_ai.tool.call.arguments",),
    "result": ("gen_ai.tool.call.result",),
    "query": ("gen_ai.retrieval.query.text",),
    "documents": ("gen_ai.retrieval.documents",),
}
"""Fields that a span has room for and that the SDK keeps off the spans it exports."""

_OPERATIONS: Final = {
    semconv.EXECUTION_COMPLETED: semconv.INVOKE_AGENT,
    semconv.EXECUTION_FAILED: semconv.INVOKE_AGENT,
    semconv.EXECUTION_CANCELLED: semconv.INVOKE_AGENT,
    semconv.PIPELINE_COMPLETED: semconv.INVOKE_WORKFLOW,
    semconv.TOOL_CALLED: semconv.EXECUTE_TOOL,
    semconv.RETRIEVAL_COMPLETED: semconv.RETRIEVAL,
    semconv.STEP_COMPLETED: semconv.STEP,
}
"""What an event is the end of, where no field of it says so."""


def _list(values: Iterable[str]) -> str:
    return f"[{', '.join(repr(value) for value in values)}]"


def _text(raw: str) -> str:
    """SQL for a raw JSON value as an attribute has it: strings bare, everything else as JSON."""
    return f"""if(startsWith({raw}, '"'), JSONExtractString({raw}), {raw})"""


def _map(names: str, raws: str) -> str:
    return (
        f"mapFromArrays(arrayMap(n -> toLowCardinality(n), {names}),"
        f" arrayMap(r -> {_text('r')}, {raws}))"
    )


def _attributes() -> str:
    """SQL for the attributes; `fields` are the event's keys and raw values, nulls left out."""
    known = {**semconv.SPAN_ATTRIBUTES, **_MORE}
    # Of a model call, the model that answered is told from the one that was asked for.
    answered = {"llm_model": (semconv.ANSWERED_BY, "llm.model")}

    def pairs(place: int) -> str:
        first = {field: names[place] for field, names in known.items() if len(names) > place}
        usual = f"transform(f.1, {_list(first)}, {_list(first.values())}, '')"
        return (
            f"arrayMap(f -> (if(event_type = '{semconv.LLM_CALLED}' AND f.1 = 'llm_model',"
            f" '{answered['llm_model'][place]}', {usual}), f.2), fields)"
        )

    operation = f"transform(event_type, {_list(_OPERATIONS)}, {_list(_OPERATIONS.values())}, '')"
    return (
        f"arrayFilter(p -> p.1 != '', arrayConcat({pairs(0)}, {pairs(1)},"
        f" if({operation} = '', [], [('{semconv.OPERATION}', {operation})])))"
    )


def _marks() -> str:
    """SQL for what a retry, fallback or decision shows on the span it happened in."""
    names = {
        f"{event_type}/{field}": attribute
        for event_type, (_, fields) in semconv.SPAN_EVENTS.items()
        for field, attribute in fields.items()
    }
    return (
        "arrayFilter(p -> p.1 != '', arrayMap(f -> (transform(concat(event_type, '/', f.1),"
        f" {_list(names)}, {_list(names.values())}, ''), f.2), fields))"
    )


FRAGMENTS: Final = {
    "event_fields": "arrayFilter(f -> f.2 != 'null', JSONExtractKeysAndValuesRaw(payload))",
    "own_attribute_pairs": _attributes(),
    "own_attributes": _map("pairs.1", "pairs.2"),
    "own_mark_pairs": _marks(),
    "own_mark_types": _list(semconv.SPAN_EVENTS),
    "own_mark_names": _list(name for name, _ in semconv.SPAN_EVENTS.values()),
    "own_client_type": repr(semconv.LLM_CALLED),
}
"""What the `.sql` files call `$name`."""
