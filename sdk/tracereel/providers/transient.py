"""Removal of transient content: reasoning and stream parts are noted by size, not stored."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tracereel.providers.base import PERSISTENCE, PersistenceStrategy
from tracereel.providers.blocks import THOUGHTS
from tracereel.providers.reading import as_data, get, mapping, table, text

CONTENT_FIELDS: Final = ("content", "arguments", "arguments_text", "citations")
"""Event fields with content, each replaced by its size; `raw` is left out."""
_THINKING: Final = frozenset({"thinking", "reasoning_delta"})
_BLOCK_LISTS: Final = ("content", "parts")
_EXTRA: Final = ("reasoning_content", "reasoning")
"""Message fields in which some OpenAI-compatible servers send their reasoning."""

_TELLING: Final = frozenset({"type", "thought", "additional_kwargs", "parts", *_EXTRA})
"""Fields without which a message with a text has no reasoning."""


def strategy_of(kind: str, *, store_thinking: bool = False) -> PersistenceStrategy:
    """Return when an event type is stored; reasoning is transient by default."""
    return "async" if store_thinking and kind in _THINKING else PERSISTENCE[kind]


def drop_content(fields: dict[str, Any]) -> None:
    """Replace the content of a transient event by sizes in bytes."""
    fields.pop("raw", None)
    for name in CONTENT_FIELDS:
        if (value := fields.pop(name, None)) is not None:
            fields[f"{name}_size_bytes"] = _size(value)


def without_thinking(messages: Sequence[Any]) -> list[Any]:
    """Return messages with the size of the reasoning instead of its text."""
    return [_stripped(each) if _thinks(each) else each for each in messages]


def _thinks(message: Any) -> bool:
    if message is None or isinstance(message, str):
        return False
    fields = table(message)
    # Most messages are a role and a text.
    if (
        isinstance(fields, dict)
        and isinstance(fields.get("content"), str)
        and fields.keys().isdisjoint(_TELLING)
    ):
        return False
    if _is_thought(message) or text(get(message, *_EXTRA)) is not None:
        return True
    if text(get(get(message, "additional_kwargs"), *_EXTRA)) is not None:
        return True
    return any(
        _is_thought(block)
        for name in _BLOCK_LISTS
        if isinstance(blocks := get(message, name), (list, tuple))
        for block in blocks
        if not isinstance(block, str)
    )


def _is_thought(block: Any) -> bool:
    kind = get(block, "type")
    return (isinstance(kind, str) and kind in THOUGHTS) or get(block, "thought") is True


def _stripped(message: Any) -> Any:
    data = mapping(as_data(message))
    if _is_thought(data):
        return _note(data)
    kept = _without_extra(data)
    if (extra := mapping(data.get("additional_kwargs"))) and "additional_kwargs" in kept:
        kept["additional_kwargs"] = _without_extra(extra)
    for name in _BLOCK_LISTS:
        if isinstance(blocks := kept.get(name), list):
            kept[name] = [
                _note(block) if isinstance(block, dict) and _is_thought(block) else block
                for block in blocks
            ]
    return kept


def _without_extra(data: dict[str, Any]) -> dict[str, Any]:
    kept = dict(data)
    for name in _EXTRA:
        if (found := text(kept.get(name))) is not None:
            kept[name] = {"size_bytes": _size(found)}
    return kept


def _note(block: dict[str, Any]) -> dict[str, Any]:
    reasoning = get(
        block, "thinking", "reasoning", "reasoning_content", "text", "summary", "content"
    )
    size = 0 if reasoning is None else _size(reasoning)
    kind = text(block.get("type"))
    return {"thought": True, "size_bytes": size} | ({} if kind is None else {"type": kind})


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace"))
    try:
        return len(msgspec.json.encode(as_data(value)))
    except (ValueError, OverflowError, msgspec.MsgspecError):  # lone surrogates, huge integers
        return len(repr(value))
