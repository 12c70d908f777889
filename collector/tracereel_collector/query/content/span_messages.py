"""Messages of a model call from a span of any dialect: attributes, span events, log records."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tracereel.content import ConvertedMessages, Message, Part, conversation, messages_of
from tracereel.content.reading import mapping, parsed
from tracereel_collector.query.content.numbered import unflatten
from tracereel_collector.query.content.rows import ContentLog, ContentSpan
from tracereel_collector.store.dialects.content import (
    ANSWER_CALLS,
    ANSWER_TEXT,
    ANSWER_THINKING,
    BOTH,
    CHOICE_EVENTS,
    DETAILS_EVENT,
    EVENT_ROLES,
    INPUT,
    OTHER_INPUT,
    OTHER_OUTPUT,
    OUTPUT,
    PROMPT_EVENT,
    SYSTEM,
    Numbered,
)

NOTHING: Final = ConvertedMessages()
Sides = tuple[ConvertedMessages, ConvertedMessages]
"""Messages to and from a model."""


def span_messages(span: ContentSpan, logs: Callable[[], Sequence[ContentLog]]) -> Sides:
    """Return the messages of both sides from the best source; `logs` is asked only if needed."""
    attributes = span.attributes
    asked = _from(attributes, INPUT[:3], "user")
    said = _from(attributes, OUTPUT[:3], "assistant")
    if not said.messages:
        said = _vercel_answer(attributes)
    mixed: Sides = (NOTHING, NOTHING)
    if not asked.messages or not said.messages:
        mixed = _first_side(_both(attributes), _span_events(span))
    asked, said = _better(asked, mixed[0]), _better(said, mixed[1])
    asked = _better(asked, lambda: _from(attributes, (*INPUT[3:], *OTHER_INPUT), "user"))
    said = _better(said, lambda: _from(attributes, (*OUTPUT[3:], *OTHER_OUTPUT), "assistant"))
    if not asked.messages or not said.messages:
        logged = _logged(logs())
        asked, said = _better(asked, logged[0]), _better(said, logged[1])
    return _with_system(attributes, asked), _with_thinking(attributes, said)


def value_at(attributes: Mapping[str, str], place: str | Numbered) -> Any:
    """Return the value of an attribute or of numbered ones; JSON is parsed."""
    if isinstance(place, Numbered):
        return unflatten(attributes, place.prefix)
    return unquoted(attributes.get(place, ""))


def unquoted(text: str) -> Any:
    """Return the value of a text that may be JSON, also a quoted text (MLflow)."""
    if text[:1] == '"' and text[-1:] == '"' and len(text) > 1:
        try:
            text = str(msgspec.json.decode(text))
        except (ValueError, RecursionError):
            return text
    return parsed(text)


def _better(
    found: ConvertedMessages, other: ConvertedMessages | Callable[[], ConvertedMessages]
) -> ConvertedMessages:
    if found.messages:
        return found
    return other if isinstance(other, ConvertedMessages) else other()


def _from(
    attributes: Mapping[str, str], places: Iterable[str | Numbered], role: str
) -> ConvertedMessages:
    for place in places:
        value = value_at(attributes, place)
        found = conversation(_unwrapped(value), role=role) if value else NOTHING
        # A message without parts hides the content of another attribute (LiteLLM's tool calls).
        if any(message.parts for message in found.messages):
            return found
    return NOTHING


def _unwrapped(value: Any) -> Any:
    """Return the request inside of a function's arguments (`args`, `kwargs`)."""
    fields = mapping(value)
    inner = mapping(fields.get("kwargs"))
    if fields.keys() <= {"args", "kwargs"} and inner:
        return inner
    return value


def _with_thinking(attributes: Mapping[str, str], said: ConvertedMessages) -> ConvertedMessages:
    """Put thinking that has an attribute of its own before the answer."""
    thought = next((attributes[name] for name in ANSWER_THINKING if attributes.get(name)), "")
    known = any(part.type == "thinking" for each in said.messages for part in each.parts)
    if not thought or known or not said.messages:
        return said
    parts = (Part(type="thinking", text=thought), *said.messages[0].parts)
    answer = said.messages[0].model_copy(update={"parts": parts})
    return ConvertedMessages((answer, *said.messages[1:]), said.cut)


def _vercel_answer(attributes: Mapping[str, str]) -> ConvertedMessages:
    """Return the answer of the Vercel AI SDK, which has an attribute for each kind of part."""
    content: list[Any] = []
    for names, kind in ((ANSWER_THINKING, "reasoning"), (ANSWER_TEXT, "text")):
        said = next((attributes[name] for name in names if attributes.get(name)), "")
        if said:
            content.append({"type": kind, "text": said})
    for name in ANSWER_CALLS:
        calls = unquoted(attributes.get(name, ""))
        if isinstance(calls, list):
            content += [{**mapping(each), "type": "tool-call"} for each in calls]
            break
    return conversation([{"role": "assistant", "content": content}] if content else [])


def _both(attributes: Mapping[str, str]) -> Sides:
    """Return the messages of a list that has both sides."""
    for name in BOTH:
        listed = unquoted(attributes.get(name, ""))
        if isinstance(listed, list) and listed:
            return _sides([(mapping(each).get("event.name"), each) for each in listed])
    return NOTHING, NOTHING


def _sides(events: Sequence[tuple[Any, Any]]) -> Sides:
    """Return named messages by side: choices are output, and so is the last message of the model."""
    asked = [_with_role(name, each) for name, each in events if name not in CHOICE_EVENTS]
    said = [each for name, each in events if name in CHOICE_EVENTS]
    if not said:
        found = messages_of(asked)
        last = len(found)
        while last and found[last - 1].role == "assistant":
            last -= 1
        return ConvertedMessages(found[:last]), ConvertedMessages(found[last:])
    return conversation(asked), conversation(said, role="assistant")


def _with_role(name: Any, event: Any) -> Any:
    role = EVENT_ROLES.get(name) if isinstance(name, str) else None
    fields = mapping(event)
    return {"role": role, **fields} if role and fields else event


def _first_side(*found: Sides) -> Sides:
    asked = next((each[0] for each in found if each[0].messages), NOTHING)
    said = next((each[1] for each in found if each[1].messages), NOTHING)
    return asked, said


def _span_events(span: ContentSpan) -> Sides:
    """Return the messages in the events of a span."""
    events: list[tuple[str, Any]] = []
    for event in span.events:
        attributes = event.attributes
        if event.name == DETAILS_EVENT:
            return _details(attributes)
        if event.name == PROMPT_EVENT:
            whole = attributes.get("gen_ai.prompt") or attributes.get("gen_ai.event.content", "")
            listed = unquoted(whole)
            each = listed if isinstance(listed, list) else [listed]
            events += [(event.name, message) for message in each]
        elif event.name in EVENT_ROLES or event.name in CHOICE_EVENTS:
            events.append((event.name, _event_message(attributes)))
    return _sides(events) if events else (NOTHING, NOTHING)


def _event_message(attributes: Mapping[str, str]) -> Any:
    """Return the message in an event: one attribute with all of it, or one for each field."""
    for name in ("gen_ai.completion", "gen_ai.event.content", "message"):
        found = unquoted(attributes.get(name, ""))
        if isinstance(found, dict):
            return {**_fields(attributes), **found} if name == "message" else found
        if isinstance(found, list) and found:
            return found
        if found:
            return {"content": found}
    return _fields(attributes)


def _fields(attributes: Mapping[str, str]) -> dict[str, Any]:
    names = ("role", "content", "tool_calls", "id", "name", "finish_reason", "tool_call_id")
    found = {name: unquoted(attributes[name]) for name in names if name in attributes}
    if "id" in found and "tool_call_id" not in found:
        found["tool_call_id"] = found.pop("id")
    return found


def _details(attributes: Mapping[str, str]) -> Sides:
    asked = _with_system(attributes, _from(attributes, INPUT[:1], "user"))
    return asked, _from(attributes, OUTPUT[:1], "assistant")


def _logged(logs: Sequence[ContentLog]) -> Sides:
    """Return the messages in log records of a span."""
    events: list[tuple[str, Any]] = []
    for log in logs:
        if log.name == DETAILS_EVENT:
            found = _details(log.attributes)
            if not found[0].messages and isinstance(body := parsed(log.body), dict):
                texts = {name: _as_text(each) for name, each in body.items()}
                found = _details(texts)
            if found[0].messages or found[1].messages:
                return found
        elif log.name in EVENT_ROLES or log.name in CHOICE_EVENTS:
            body = parsed(log.body)
            message = body if isinstance(body, dict) else {"content": body}
            if "id" in message and log.name == "gen_ai.tool.message":
                message = {**message, "tool_call_id": message["id"]}
            events.append((log.name, message))
    return _sides(events) if events else (NOTHING, NOTHING)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _with_system(attributes: Mapping[str, str], asked: ConvertedMessages) -> ConvertedMessages:
    """Put the system prompt first if it has an attribute of its own and is not among the messages."""
    if any(message.role in ("system", "developer") for message in asked.messages):
        return asked
    for name in SYSTEM:
        if value := unquoted(attributes.get(name, "")):
            parts: list[Part] = [
                part for each in messages_of(value, role="system") for part in each.parts
            ]
            system = Message(role="system", parts=tuple(parts))
            return ConvertedMessages((system, *asked.messages), asked.cut)
    return asked
