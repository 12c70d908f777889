"""Conversion of any sender's messages: requests, responses, states and lists of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tracereel.content.model import ContentCut, Message, Part
from tracereel.content.parts import (
    MAX_PARTS,
    call_part,
    data_part,
    is_block,
    parts_of,
    result_part,
    text_part,
)
from tracereel.content.reading import (
    count,
    cut_beside,
    cut_of,
    first,
    items,
    mapping,
    parsed,
    text,
    word,
)

MAX_MESSAGES: Final = 10_000
"""Messages of one conversation; more are left out, which `cut` states."""
MAX_LEVELS: Final = 6
"""Envelopes around messages: state, request, list of lists …"""

ROLES: Final = {
    "human": "user",
    "HumanMessage": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "model": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "SystemMessage": "system",
    "SystemMessageChunk": "system",
    "ToolMessage": "tool",
    "ToolMessageChunk": "tool",
    "FunctionMessage": "tool",
    "function": "tool",
    "ipython": "tool",
}
"""Senders' words for a role; others stay as sent."""
_LANGCHAIN: Final = frozenset(
    {*ROLES, "system", "tool", "chat", "user", "assistant", "developer"} - {"model", "ipython"}
)
"""Types of LangChain's messages."""
_SPOKEN: Final = ("system", "user", "human", "assistant", "ai", "developer")
_PART_ROLES: Final = {
    "system-prompt": "system",
    "instruction": "system",
    "user-prompt": "user",
    "tool-return": "tool",
    "retry-prompt": "user",
}
"""Roles of pydantic-ai's parts in a request."""
REMOVED: Final = "tracereel"
"""Role of the message that replaces removed messages."""
_SYSTEM: Final = (
    *("system", "instructions", "systemInstruction", "system_instruction", "system_instructions"),
)
_LISTS: Final = (
    "messages",
    "contents",
    "input_messages",
    "all_messages",
    "history",
    "chat_history",
)
_ANSWERS: Final = ("choices", "candidates", "generations", "output_messages")
_WRAPPERS: Final = ("inputs", "outputs", "kwargs", "request", "response", "input", "output")


class ConvertedMessages(NamedTuple):
    """Converted messages."""

    messages: tuple[Message, ...] = ()
    cut: ContentCut | None = None


@dataclass(slots=True)
class _Draft:
    """Message that is still being put together."""

    role: str
    parts: list[Part] = field(default_factory=list)
    name: str | None = None
    id: str | None = None
    finish_reason: str | None = None
    joins: bool = False
    """Whether it belongs to the message before it: items of the Responses API, bare blocks."""
    removed: int = 0


def conversation(value: Any, *, role: str = "user") -> ConvertedMessages:
    """Return messages of any form in order; `role` is used where none is given."""
    drafts: list[_Draft] = []
    total = 0
    for draft in _drafts(parsed(value), role, MAX_LEVELS):
        total += 1
        last = drafts[-1] if drafts else None
        if last is not None and draft.joins and last.joins and last.role == draft.role:
            last.parts += draft.parts[: max(0, MAX_PARTS - len(last.parts))]
            last.finish_reason = last.finish_reason or draft.finish_reason
        elif len(drafts) < MAX_MESSAGES:
            drafts.append(draft)
    messages: list[Message] = []
    removed, at = max(0, total - MAX_MESSAGES), len(drafts)
    for draft in drafts:
        if draft.removed:
            removed, at = removed + draft.removed, len(messages)
        else:
            for message in _split(draft):
                if messages and _continues(messages[-1], message):
                    message = _joined(messages.pop(), message)
                messages.append(message)
    cut = ContentCut(length=len(messages) + removed, removed=removed, at=at) if removed else None
    return ConvertedMessages(_named(messages), cut)


def messages_of(value: Any, *, role: str = "user") -> tuple[Message, ...]:
    """Return messages of any form in order."""
    return conversation(value, role=role).messages


def _continues(last: Message, message: Message) -> bool:
    """Return whether two messages are one turn: some senders make a message of each part."""
    if last.role != "assistant" or message.role != "assistant" or last.finish_reason:
        return False
    return not (_has_text(last) and _has_text(message))


def _has_text(message: Message) -> bool:
    return any(part.type in ("text", "data") for part in message.parts)


def _joined(last: Message, message: Message) -> Message:
    return message.model_copy(
        update={
            "parts": (*last.parts, *message.parts)[:MAX_PARTS],
            "id": last.id or message.id,
            "name": last.name or message.name,
        }
    )


def _named(messages: list[Message]) -> tuple[Message, ...]:
    """Give tool results the name of their call, which some providers leave out."""
    names = {
        part.id: part.name
        for message in messages
        for part in message.parts
        if part.type == "tool_call" and part.id and part.name
    }
    return tuple(_with_names(message, names) if names else message for message in messages)


def _with_names(message: Message, names: Mapping[str, str]) -> Message:
    def lacks(part: Part) -> bool:
        return part.type == "tool_result" and part.name is None and part.id in names

    if not any(lacks(part) for part in message.parts):
        return message
    parts = tuple(
        part.model_copy(update={"name": names[part.id or ""]}) if lacks(part) else part
        for part in message.parts
    )
    return message.model_copy(update={"parts": parts})


def _split(draft: _Draft) -> Iterator[Message]:
    """Yield a message; results of tools become messages of their own, as in most providers' forms."""
    others = {"name": draft.name, "id": draft.id, "finish_reason": draft.finish_reason}
    if draft.role == "assistant" or not any(part.type == "tool_result" for part in draft.parts):
        yield Message(role=draft.role, parts=tuple(draft.parts), **others)
        return
    waiting: list[Part] = []
    is_result = False
    for part in draft.parts:
        if part.type == "tool_result":
            if waiting:
                yield Message(role="tool" if is_result else draft.role, parts=tuple(waiting))
            waiting, is_result = [part], True
        elif is_result and part.type == "text" and draft.role != "tool":
            yield Message(role="tool", parts=tuple(waiting))
            waiting, is_result = [part], False
        else:
            waiting.append(part)
    yield Message(role="tool" if is_result else draft.role, parts=tuple(waiting), **others)


def _drafts(value: Any, role: str, depth: int) -> Iterator[_Draft]:
    """Yield the messages in a value."""
    if value is None or value == "":
        return
    if isinstance(value, str):
        yield _Draft(role, [text_part(value)])
    elif isinstance(value, list | tuple):
        for item in value:
            if depth > 0:
                yield from _item(item, role, depth - 1)
            else:
                yield _Draft(role, [data_part(item)])
    elif not (fields := mapping(value)):
        yield _Draft(role, [data_part(value)])
    elif depth > 0 and (found := _envelope(fields, role, depth - 1)) is not None:
        yield from found
    else:
        yield from _item(fields, role, depth)


def _item(item: Any, role: str, depth: int) -> Iterator[_Draft]:
    """Yield the messages of one item of a list."""
    if item is None:
        return
    if isinstance(item, list | tuple):
        if (
            len(item) == 2
            and isinstance(item[1], str)
            and isinstance(item[0], str)
            and (item[0] in _SPOKEN)
        ):
            yield _Draft(ROLES.get(item[0], item[0]), [text_part(item[1])])  # LangChain's pairs
        else:
            yield from _drafts(item, role, depth)
        return
    if isinstance(item, str):
        # A text in a list is a message, never a serialized one, unless it is JSON with a role.
        found = parsed(item)
        if mapping(found).keys() & {"role", "lc", "kwargs"} and depth > 0:
            yield from _item(found, role, depth - 1)
        else:
            yield _Draft(role, [text_part(item)] if item else [])
        return
    fields = mapping(item)
    if not fields:
        yield _Draft(role, [data_part(item)])
        return
    if fields.get("role") == REMOVED and "removed_messages" in fields:
        yield _Draft(REMOVED, removed=count(fields.get("removed_messages")) or 0)
    elif mapping(fields.get("kwargs")) and items(fields.get("id")):  # LangChain's constructor form
        name = word(items(fields.get("id"))[-1])
        yield _message({"type": name, **mapping(fields["kwargs"])}, role)
    elif mapping(data := fields.get("data")) and fields.get("type") in _LANGCHAIN:
        yield _message({"type": fields["type"], **mapping(data)}, role)
    elif fields.get("kind") in ("request", "response") and "parts" in fields:
        yield from _pydantic_ai(fields)
    elif (message := fields.get("message")) is not None and "content" not in fields:
        yield from _wrapped(fields, message, role, depth)
    elif mapping(content := fields.get("content")) and "parts" in mapping(content):
        yield from _wrapped(fields, content, role, depth)  # Google's candidate
    elif is_block(fields) and not isinstance(fields.get("role"), str):
        yield _bare(fields, role)
    elif depth > 0 and (found := _envelope(fields, role, depth - 1)) is not None:
        yield from found
    else:
        yield _message(fields, role)


def _envelope(fields: Mapping[str, Any], role: str, depth: int) -> Iterator[_Draft] | None:
    """Return the messages of a request, a response or a state; None if it is something else."""
    if isinstance(fields.get("role"), str) or is_block(fields):
        return None
    system = first(fields, *_SYSTEM)
    for name in _LISTS:
        if isinstance(found := parsed(fields.get(name)), list | tuple | dict | str) and found:
            config = mapping(first(fields, "config", "generationConfig"))
            system = system if system is not None else first(config, *_SYSTEM)
            return _with_system(system, found, role, depth)
    for name in _ANSWERS:
        if isinstance(found := parsed(fields.get(name)), list | tuple) and found:
            return _drafts(found, "assistant", depth)
    if isinstance(said := fields.get("combined_chunk_content"), str):  # Logfire's streams
        return iter([_Draft("assistant", [text_part(said)] if said else [])])
    if system is not None and (asked := first(fields, "input", "prompt")) is not None:
        return _with_system(system, asked, role, depth)
    if isinstance(prompt := fields.get("prompt"), str | list) and prompt:
        return _with_system(system, prompt, "user", depth)
    for name in _WRAPPERS:
        inner = parsed(fields.get(name))
        if isinstance(inner, list | dict) and inner and _holds_messages(inner):
            return _drafts(inner, role, depth)
    return None


def _holds_messages(value: Any) -> bool:
    """Return whether a value is a list of messages, or an object around one."""
    if isinstance(value, list):
        one = mapping(value[0])
        return bool(one) and (
            isinstance(first(one, "role"), str)
            or one.get("lc") == 1
            or is_block(one)
            or (one.get("type") in _LANGCHAIN and ("content" in one or "data" in one))
            or (one.get("type") == "message")
        )
    return not mapping(value).keys().isdisjoint({*_LISTS, *_ANSWERS})


def _with_system(system: Any, asked: Any, role: str, depth: int) -> Iterator[_Draft]:
    if system:
        for draft in _drafts(parsed(system), "system", depth):
            draft.role = "system"
            yield draft
    yield from _drafts(asked, role, depth)


def _wrapped(fields: Mapping[str, Any], inner: Any, role: str, depth: int) -> Iterator[_Draft]:
    """Yield the message in a choice, a candidate, a generation or an event."""
    said_role = word(fields.get("role"))
    is_choice = not fields.keys().isdisjoint({"finish_reason", "finishReason", "index"})
    given = said_role or ("assistant" if is_choice else role)
    finish = word(first(fields, "finish_reason", "finishReason", "stop_reason"))
    for draft in _drafts([parsed(inner)], ROLES.get(given, given), depth):
        draft.finish_reason = draft.finish_reason or finish
        if said_role in ("system", "developer"):  # Google's clients call their content the user's
            draft.role = said_role
        yield draft


def _bare(fields: Mapping[str, Any], role: str) -> _Draft:
    """Return a block that stands in the place of a message; neighbours are one message."""
    kind = word(first(fields, "type", "part_kind")) or ""
    parts = parts_of(fields)
    if all(part.type == "tool_result" for part in parts) and parts:
        given = "tool"
    elif kind == "reasoning" or any(part.type in ("tool_call", "thinking") for part in parts):
        given = "assistant"
    else:
        given = role
    return _Draft(given, parts, joins=True)


def _pydantic_ai(fields: Mapping[str, Any]) -> Iterator[_Draft]:
    """Yield the messages of pydantic-ai's `ModelRequest` or `ModelResponse`."""
    if isinstance(said := fields.get("instructions"), str) and said:
        yield _Draft("system", [text_part(said)])
    if fields.get("kind") == "response":
        found = _Draft("assistant", parts_of(fields.get("parts")))
        found.finish_reason = word(fields.get("finish_reason"))
        yield found
        return
    for part in items(fields.get("parts"))[:MAX_PARTS]:
        kind = word(mapping(part).get("part_kind")) or ""
        yield _Draft(_PART_ROLES.get(kind, "user"), parts_of(part))


def _message(fields: Mapping[str, Any], role: str) -> _Draft:
    """Return one message with a role, or whatever else the object is as data."""
    kind = word(fields.get("type")) or ""
    given = word(fields.get("role"))
    if given is None and kind in _LANGCHAIN:
        given = word(fields.get("role")) or ("user" if kind == "chat" else kind)
    if given is None and len(fields) == 1 and mapping(first(fields, "prompt", "completion")):
        return _Draft(role, parts_of(fields))
    if given is None and not fields.keys() & {"content", "parts", "tool_calls", "contents"}:
        return _Draft(role, [data_part(fields)])
    given = ROLES.get(given or role, given or role)
    more = mapping(fields.get("additional_kwargs"))
    about = mapping(fields.get("response_metadata"))
    finish = first(fields, "finish_reason", "stop_reason", "finishReason")
    draft = _Draft(
        given,
        name=word(fields.get("name")),
        id=word(fields.get("id")),
        finish_reason=word(finish) or word(first(about, "finish_reason", "stop_reason")),
        # Items of the Responses API: reasoning, message and calls are one turn.
        joins=kind == "message" and given == "assistant",
    )
    content = _content(fields)
    call_id = first(fields, "tool_call_id", "toolCallId")
    if given == "tool" and (call_id is not None or not _has_results(content)):
        draft.parts = result_part({**fields, "type": "tool"}, content, call_id)
        draft.name = None
        return draft
    draft.parts += _reasoning(fields, more)
    draft.parts += parts_of(content)
    if isinstance(content, str) and draft.parts and (cut := cut_beside(fields, "content", content)):
        draft.parts[-1] = draft.parts[-1].model_copy(update={"cut": cut})
    if isinstance(said := fields.get("refusal"), str) and said:
        draft.parts.append(Part(type="refusal", text=text(said)))
    _add_calls(draft, fields, more)
    if mapping(audio := fields.get("audio")):
        draft.parts += parts_of({"type": "audio", "audio": audio})
    if not isinstance(content, list):
        annotations = items(fields.get("annotations"))
        draft.parts += parts_of([{**mapping(each), "type": "citation"} for each in annotations])
    return draft


def _content(fields: Mapping[str, Any]) -> Any:
    content = first(fields, "content", "parts", "contents")
    if isinstance(content, str) and (listed := items(fields.get("contents"))):
        # OpenInference repeats the text of some messages in front of their blocks.
        same = any(part.text == content for part in parts_of(listed))
        return listed if same else [{"type": "text", "text": content}, *listed]
    if isinstance(content, str) and content[:1] == "[":
        # Some instrumentations write the provider's list of blocks as text.
        found = parsed(content)
        if isinstance(found, list) and found and all(is_block(mapping(each)) for each in found):
            return found
    return content


def _has_results(content: Any) -> bool:
    return any(
        part.type == "tool_result"
        for part in parts_of(content if isinstance(content, list) else [])
    )


def _reasoning(fields: Mapping[str, Any], more: Mapping[str, Any]) -> list[Part]:
    for place in (fields, more):
        said = first(place, "reasoning_content", "reasoning", "thinking")
        if isinstance(said, dict) and place is more:  # LangChain's item of the Responses API
            return parts_of({"type": "reasoning", **said})
        if isinstance(said, str) and said:
            return [Part(type="thinking", text=text(said), cut=cut_of(said))]
    return []


def _add_calls(draft: _Draft, fields: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    """Add the calls beside the content; LangChain has those of some providers in both places."""
    known = {part.id for part in draft.parts if part.type == "tool_call" and part.id}
    calls = items(parsed(first(fields, "tool_calls", "toolCalls"))) or items(more.get("tool_calls"))
    for call in [*calls, *items(fields.get("invalid_tool_calls"))][:MAX_PARTS]:
        inner = mapping(call).get("tool_call")  # OpenInference's wrapper
        part = call_part(inner if mapping(inner) else call)
        if part.id is None or part.id not in known:
            draft.parts.append(part)
    old = first(fields, "function_call") or more.get("function_call")
    if mapping(old) and not calls:
        draft.parts.append(call_part(old))
