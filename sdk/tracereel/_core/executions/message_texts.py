"""Summaries of messages to and from a model, whatever the provider's form of them is."""

from collections.abc import Iterator
from typing import Any, Final

from tracereel._redact import values
from tracereel.semconv import SUMMARY_LIMIT

_INSIDE: Final = ("content", "text", "parts", "output", "message", "kwargs", "data", "response")
"""Keys under which a message or part has its text or parts, by precedence."""
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning", "thought"})
_CALLS: Final = frozenset(
    {"tool_use", "server_tool_use", "function_call", "tool_call", "tool-call"}
)
"""Types of parts that call a tool."""
_ASKING: Final = frozenset({"user", "human"})
_NAMES: Final = ("name", "tool_name")
_MAX_PARTS: Final = 50
_DEPTH: Final = 6


def sent(messages: Any) -> str | None:
    """Return the text of the last message that was sent, or a summary of it."""
    if not isinstance(messages, list) or not messages:
        return None
    last = messages[-1]
    return _plain(last) or _short(_texts(last, _DEPTH)) or values.summary(last)


def answered(messages: Any) -> str | None:
    """Return the text of the response, else the names of the tools that it calls."""
    if not isinstance(messages, list) or not messages:
        return None
    found = _plain(messages[0]) if len(messages) == 1 else None
    if found is None:
        found = _short(_texts(messages, _DEPTH))
    if found is None:
        names = list(dict.fromkeys(_called(messages, _DEPTH)))
        found = values.text(", ".join(names), SUMMARY_LIMIT) if names else None
    return found


def question_in(arguments: Any) -> str | None:
    """Return the last question in arguments that hold messages; None if there are none."""
    held = arguments.values() if type(arguments) is dict else ()
    for value in (arguments, *held):
        messages = _messages(value)
        if messages:
            asked = [each for each in messages[-_MAX_PARTS:] if _role(each) in _ASKING]
            return sent(asked[-1:] or messages)
    return None


def answer_in(result: Any) -> str | None:
    """Return the last message of a result that holds messages; None if there are none."""
    messages = _messages(result)
    return answered(messages[-1:]) if messages else None


def _messages(value: Any) -> list[Any] | None:
    """Return the messages of a state or a list of messages."""
    found = value.get("messages") if type(value) is dict else value
    if type(found) is not list or not found:
        return None
    return found if all(_role(each) for each in (found[0], found[-1])) else None


def _role(message: Any) -> str:
    """Return the role or type of a message, or an empty text."""
    if type(message) is not dict:
        return ""
    role = message.get("role") or message.get("type") or message.get("kind")
    return role if type(role) is str else ""


def _plain(message: Any) -> str | None:
    """Return the text of a message whose content is a text: the most frequent form."""
    content = message.get("content") if type(message) is dict else message
    if type(content) is not str or not content or content.isspace():
        return None
    return values.text(content, SUMMARY_LIMIT)


def _short(texts: Iterator[str]) -> str | None:
    kept: list[str] = []
    left = SUMMARY_LIMIT + 1
    for text in texts:
        kept.append(text[:left])
        left -= len(text)
        if left <= 0:
            break
    whole = "".join(kept).strip()
    return values.text(whole, SUMMARY_LIMIT) if whole else None


def _texts(data: Any, depth: int) -> Iterator[str]:
    """Yield the texts of a message, without those of reasoning and tool calls."""
    if type(data) is str:
        yield data
    elif depth > 0 and type(data) is list:
        for each in data[:_MAX_PARTS]:
            yield from _texts(each, depth - 1)
    elif depth > 0 and type(data) is dict:
        if data.get("thought") is True or _kind(data) in _THOUGHTS | _CALLS:
            return
        for name in _INSIDE:
            found = data.get(name)
            if found is not None and found != "" and type(found) in (str, list, dict):
                yield from _texts(found, depth - 1)
                return


def _called(data: Any, depth: int) -> Iterator[str]:
    """Yield the names of the tools that a message calls."""
    if depth <= 0:
        return
    if type(data) is list:
        for each in data[:_MAX_PARTS]:
            yield from _called(each, depth - 1)
    elif type(data) is dict:
        if _kind(data) in _CALLS:
            yield from _name(data)
        for call in ("functionCall", "function_call"):
            if type(data.get(call)) is dict:
                yield from _name(data[call])
        calls = data.get("tool_calls")
        for call in calls[:_MAX_PARTS] if type(calls) is list else ():
            if type(call) is dict:
                inner = call.get("function") or call.get("custom")
                yield from _name(inner if type(inner) is dict else call)
        for name in _INSIDE:
            if type(data.get(name)) in (list, dict):
                yield from _called(data[name], depth - 1)


def _name(call: dict[str, Any]) -> Iterator[str]:
    for key in _NAMES:
        if type(call.get(key)) is str:
            yield call[key]
            return


def _kind(data: dict[str, Any]) -> str:
    kind = data.get("type") or data.get("part_kind")
    return kind if type(kind) is str else ""
