"""Content of a step from the events of the SDK."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from tracereel.content import (
    Content,
    ConvertedMessages,
    Message,
    ModelCallContent,
    Part,
    TokenUsage,
    ToolCallContent,
    ValueContent,
    answered,
    asked,
    conversation,
    parameters_of,
    tools_of,
)
from tracereel.content.reading import (
    count,
    cut_beside,
    cut_inside,
    first,
    mapping,
    number,
    plain,
    word,
)

Event = Mapping[str, Any]
_MESSAGE: Final = "agent.message.normalized"
_OWN: Final = (
    *("agent.execution.", "agent.pipeline.", "agent.step.", "agent.retrieval.", "agent.retry."),
    "agent.fallback.",
)
_OPTIONS: Final = ("temperature", "max_tokens", "enable_thinking", "thinking_budget")
_GIVEN: Final = ("input", "input_data", "user_prompt", "query")
_GIVEN_SUMMARY: Final = ("input_summary",)
_MADE: Final = ("output", "documents", "output_data", "result")
_MADE_SUMMARY: Final = (
    *("output_summary", "fallback_output_summary", "result_summary", "final_outcome"),
)


def content_of_events(kind: str, events: Sequence[Event]) -> Content:
    """Return the content of a step of some kind from its events, in causal order."""
    if kind == "llm":
        return _model_call(events)
    return _tool_call(events) if kind == "tool" else _value(events)


def decoded(payload: str) -> Event:
    """Return a stored event; an empty one if it cannot be read."""
    try:
        found = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def call_messages(event: Event) -> tuple[ConvertedMessages, ConvertedMessages]:
    """Return the messages to and from the model of one `agent.llm.called` event."""
    given = conversation(event.get("input_messages"), role="user")
    said = conversation(event.get("output_messages"), role="assistant")
    return given, said


def _model_call(events: Sequence[Event]) -> ModelCallContent:
    event = next((each for each in events if each.get("event_type") == "agent.llm.called"), {})
    given, said = call_messages(event)
    messages = _with_cut(event, _completed(said.messages, events))
    usage = TokenUsage(
        input=count(event.get("llm_prompt_tokens")),
        output=count(event.get("llm_completion_tokens")),
        total=count(event.get("llm_tokens_used")),
        cache_read=count(event.get("llm_cached_tokens")),
        cache_write=count(event.get("llm_cache_creation_tokens")),
        reasoning=count(event.get("llm_reasoning_tokens")),
    )
    options = {name: event[name] for name in _OPTIONS if event.get(name) is not None}
    first_token = number(event.get("time_to_first_token_ms"))
    return ModelCallContent(
        input=given.messages,
        output=messages,
        tools=tools_of(event.get("tool_definitions")),
        parameters={**options, **parameters_of(event.get("request_parameters"))},
        model=word(event.get("llm_model")),
        provider=word(event.get("llm_provider")),
        finish_reason=word(event.get("finish_reason")),
        usage=usage,
        first_token_ms=first_token,
        tokens_per_second=number(event.get("tokens_per_second"))
        or _speed(usage.output, number(event.get("duration_ms")), first_token),
        cut=given.cut,
    )


def _speed(tokens: int | None, duration: float | None, first_token: float | None) -> float | None:
    """Return tokens a second after the first one; None if it is not known."""
    if not tokens or duration is None or first_token is None or duration <= first_token:
        return None
    return round(tokens / (duration - first_token) * 1000, 3)


def _with_cut(event: Event, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Mark a streamed answer of which only the beginning was recorded."""
    if len(messages) == 1 and len(messages[0].parts) == 1:
        (part,) = messages[0].parts
        cut = cut_beside(event, "output_messages", part.text)
        if cut is not None:
            part = part.model_copy(update={"cut": cut})
            return (messages[0].model_copy(update={"parts": (part,)}),)
    return messages


def _completed(said: tuple[Message, ...], events: Sequence[Event]) -> tuple[Message, ...]:
    """Add what only normalized messages have: thinking, or the answer if it was not recorded."""
    parts = [
        part
        for event in events
        if event.get("event_type") == _MESSAGE and event.get("role") == "assistant"
        for part in _normalized(event)
    ]
    if not said:
        return (Message(role="assistant", parts=tuple(parts)),) if parts else ()
    thinking = [part for part in parts if part.type == "thinking" and part.text]
    if thinking and not any(part.type == "thinking" for each in said for part in each.parts):
        whole = said[0].model_copy(update={"parts": (*thinking, *said[0].parts)})
        return (whole, *said[1:])
    return said


def _normalized(event: Event) -> list[Part]:
    """Return the parts of one normalized message."""
    kind, content = event.get("message_type"), event.get("content")
    if kind in ("tool_request", "tool_call"):
        return [
            Part(
                type="tool_call",
                id=word(first(event, "provider_tool_call_id", "tool_call_id")),
                name=word(event.get("tool_name")),
                value=plain(event.get("arguments")),
            )
        ]
    if kind in ("thinking", "reasoning_delta"):
        return [Part(type="thinking", text=content)] if isinstance(content, str) else []
    if kind == "content_refused" and isinstance(content, str):
        return [Part(type="refusal", text=content)]
    found = conversation([{"role": "assistant", "content": content}]) if content else None
    cited = conversation([{"role": "assistant", "content": _sources(event)}])
    return [part for each in (found, cited) if each for m in each.messages for part in m.parts]


def _sources(event: Event) -> list[Any]:
    cited = event.get("citations")
    listed = cited if isinstance(cited, list) else []
    return [{**mapping(each), "type": "citation"} for each in listed]


def _tool_call(events: Sequence[Event]) -> ToolCallContent:
    event = next((each for each in events if each.get("event_type") == "agent.tool.called"), {})
    given, result = plain(event.get("arguments")), first(event, "result", "result_summary")
    result = plain(result)
    cut = cut_inside([given, result]) or cut_beside(event, "result", result)
    return ToolCallContent(
        name=word(event.get("tool_name")),
        id=word(event.get("tool_call_id")),
        arguments=given,
        result=result,
        cut=cut,
    )


def _value(events: Sequence[Event]) -> ValueContent:
    """Return input and output of a step: those of its own events, not of calls inside of it.

    A summary is shown if there is nothing else, but is no question and no answer: it describes a value.
    """
    own = [each for each in events if str(each.get("event_type")).startswith(_OWN)]
    given, made = plain(_first(own, _GIVEN)), plain(_first(own[::-1], _MADE))
    said = "".join(
        part.text or ""
        for each in events
        if each.get("event_type") == _MESSAGE and each.get("message_type") == "assistant_message"
        for part in _normalized(each)
        if part.type == "text"
    )
    return ValueContent(
        input=plain(_first(own, _GIVEN_SUMMARY)) if given is None else given,
        output=plain(_first(own[::-1], _MADE_SUMMARY)) if made is None else made,
        asked=asked(given),
        answered=answered(made) or said or None,
        cut=cut_inside([given, made]),
    )


def _first(events: Sequence[Event], names: Sequence[str]) -> Any:
    """Return the first value that is not empty, by name and then by event."""
    for name in names:
        for event in events:
            if (value := event.get(name)) not in (None, "", [], {}):
                return value
    return None
