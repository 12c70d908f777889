"""Conversations in values: the state of a graph, the history of an agent."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tracereel.content.messages import ROLES, conversation
from tracereel.content.model import Message
from tracereel.content.reading import first, items, mapping, parsed

_LISTS: Final = ("messages", "contents", "all_messages", "history", "chat_history")
_ROLES: Final = ("system", "developer", "user", "assistant", "tool")
_LEVELS: Final = 2


class State(NamedTuple):
    """Messages in a value, and the field of the value that has them; None if it is the value itself."""

    messages: tuple[Message, ...] = ()
    field: str | None = None


def state_of(value: Any) -> State:
    """Return the conversation in a value: itself, in a field of messages, or in its only field."""
    return _state(parsed(value), _LEVELS)


def _state(value: Any, depth: int) -> State:
    if isinstance(value, list | tuple):
        return State(_said(items(value)))
    fields = mapping(value)
    for name in _LISTS:
        if messages := _said(items(parsed(fields.get(name)))):
            return State(messages, name)
    if len(fields) == 1 and depth > 0:
        ((name, inner),) = fields.items()
        if messages := _state(parsed(inner), depth - 1).messages:
            return State(messages, name)
    return State()


def _said(values: list[Any]) -> tuple[Message, ...]:
    """Return the messages of a list; none if it is a list of something else."""
    if not values or not _begins(mapping(values[0])) or not all(map(_is_message, values)):
        return ()
    converted = conversation(values)
    known = all(
        message.role in _ROLES and all(part.type != "data" for part in message.parts)
        for message in converted.messages
    )
    return converted.messages if known and converted.cut is None else ()


def _begins(fields: Mapping[str, Any]) -> bool:
    """Return whether something is a message and not only a piece of one, which other lists have too."""
    return (
        isinstance(fields.get("role"), str)
        or fields.get("type") in (*ROLES, *_ROLES, "message")
        or fields.get("kind") in ("request", "response")
        or "kwargs" in fields
    )


def _is_message(value: Any) -> bool:
    fields = mapping(value)
    return isinstance(first(fields, "role", "type", "kind"), str) or "kwargs" in fields
