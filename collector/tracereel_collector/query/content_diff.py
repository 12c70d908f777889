"""Comparison of the content of two steps: messages one by one, other content by value."""

import hashlib
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import msgspec

from tracereel.content import (
    Content,
    Message,
    ModelCallContent,
    ToolCallContent,
    ValueContent,
    state_of,
)
from tracereel.content.reading import mapping, parsed
from tracereel_collector.query.content.short import said, value_text
from tracereel_collector.query.fresh_ids import FreshIds, fresh_pairs, without_fresh

MAX_CHANGES: Final = 500
"""Entries of a list of messages that are returned."""
_MAX_CELLS: Final = 4_000_000
"""Messages of one side times those of the other that are aligned; others are compared in order."""

Change = dict[str, Any]


def content_changes(a: Content, b: Content) -> dict[str, Change]:
    """Return the fields in which two contents of the same kind differ."""
    ids = FreshIds()
    if isinstance(a, ModelCallContent) and isinstance(b, ModelCallContent):
        found = {
            "input": _messages(a.input, b.input, ids),
            "parameters": _values(a.parameters, b.parameters, ids),
            "tools": _values(_dumped(a.tools), _dumped(b.tools), ids),
            "output": _messages(a.output, b.output, ids),
            "finish_reason": _values(a.finish_reason, b.finish_reason, ids),
        }
    elif isinstance(a, ToolCallContent) and isinstance(b, ToolCallContent):
        found = {
            "input": _values(a.arguments, b.arguments, ids),
            "output": _values(a.result, b.result, ids),
        }
    elif isinstance(a, ValueContent) and isinstance(b, ValueContent):
        found = {
            "input": _states(a.input, b.input, ids),
            "output": _states(a.output, b.output, ids),
        }
    else:
        found = {}
    return {name: change for name, change in found.items() if change is not None}


def _dumped(tools: Sequence[Any]) -> list[Any]:
    return [each.model_dump(exclude_none=True) for each in tools]


def _values(a: Any, b: Any, ids: FreshIds) -> Change | None:
    left, right = without_fresh(a), without_fresh(b)
    if left == right and ids.agree(a, b):
        return None
    change: Change = {"a": value_text(a), "b": value_text(b), **_fresh(a, b)}
    if isinstance(left, dict) and isinstance(right, dict):
        change["keys"] = {
            "added": sorted(right.keys() - left.keys()),
            "removed": sorted(left.keys() - right.keys()),
            "changed": sorted(
                name for name in left.keys() & right.keys() if left[name] != right[name]
            ),
        }
    return change


def _states(a: Any, b: Any, ids: FreshIds) -> Change | None:
    """Compare two states of conversations by their messages, and by what else they have."""
    left, right = state_of(a), state_of(b)
    if not left.messages or not right.messages or left.field != right.field:
        return _values(a, b, ids)
    messages = _messages(left.messages, right.messages, ids)
    name = left.field
    if name is None or (others := _values(_without(a, name), _without(b, name), ids)) is None:
        return messages
    others["without"] = name
    return {**(messages or {}), "others": others} if messages else others


def _without(value: Any, name: str) -> dict[str, Any]:
    return {key: each for key, each in mapping(parsed(value)).items() if key != name}


def _messages(a: Sequence[Message], b: Sequence[Message], ids: FreshIds) -> Change | None:
    """Return the differences of two lists of messages; equal ones are counted."""
    changes = [_checked(each, a, b, ids) for each in _aligned(a, b)]
    real = [(one, other) for one, other, same in changes if not same]
    if not real:
        return None
    one, other = real[0]
    return {
        "a": said(a[one]) if one is not None else None,
        "b": said(b[other]) if other is not None else None,
        "messages": list(_shown(changes, a, b))[:MAX_CHANGES],
    }


def _fresh(a: Any, b: Any) -> Change:
    """Map ids of the first value to those of the second."""
    pairs = fresh_pairs(a, b)
    return {"fresh": pairs} if pairs else {}


Pair = tuple[int | None, int | None]


def _checked(
    pair: Pair, a: Sequence[Message], b: Sequence[Message], ids: FreshIds
) -> tuple[int | None, int | None, bool]:
    one, other = pair
    if one is None or other is None:
        return one, other, False
    same = _key(a[one]) == _key(b[other])
    return one, other, same and ids.agree(_compared(a[one]), _compared(b[other]))


def _shown(
    changes: Sequence[tuple[int | None, int | None, bool]],
    a: Sequence[Message],
    b: Sequence[Message],
) -> Iterator[Change]:
    """Yield the changes in order; messages that are the same are one entry."""
    same: Change | None = None
    for one, other, is_same in changes:
        if is_same:
            if same is None:
                same = {"change": "same", "count": 0, "a": {"at": one}, "b": {"at": other}}
            same["count"] += 1
            continue
        if same is not None:
            yield same
            same = None
        kind = "added" if one is None else "removed" if other is None else "changed"
        yield {
            "change": kind,
            "a": None if one is None else _about(a[one], one),
            "b": None if other is None else _about(b[other], other),
            **(
                {}
                if one is None or other is None
                else _fresh(_compared(a[one]), _compared(b[other]))
            ),
        }
    if same is not None:
        yield same


def _about(message: Message, at: int) -> dict[str, Any]:
    return {"at": at, "role": message.role, "text": said(message)}


def _aligned(a: Sequence[Message], b: Sequence[Message]) -> list[Pair]:
    """Return pairs of messages in order; those between equal ones are paired by role."""
    left, right = [_key(each) for each in a], [_key(each) for each in b]
    start = next(
        (at for at, (x, y) in enumerate(zip(left, right, strict=False)) if x != y),
        min(len(left), len(right)),
    )
    if (len(left) - start) * (len(right) - start) > _MAX_CELLS:
        blocks = [("replace", start, len(left), start, len(right))]
    else:
        matcher = SequenceMatcher(None, left[start:], right[start:], autojunk=False)
        blocks = [
            (tag, i1 + start, i2 + start, j1 + start, j2 + start)
            for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        ]
    pairs: list[Pair] = [(at, at) for at in range(start)]
    for tag, i1, i2, j1, j2 in blocks:
        if tag == "equal":
            pairs += zip(range(i1, i2), range(j1, j2), strict=True)
        else:
            pairs += _by_role(a, b, range(i1, i2), range(j1, j2))
    return pairs


def _by_role(
    a: Sequence[Message], b: Sequence[Message], left: range, right: range
) -> Iterator[Pair]:
    """Pair messages of the same role in order; the others stand alone."""
    waiting = list(right)
    for one in left:
        other = next((each for each in waiting if b[each].role == a[one].role), None)
        if other is None:
            yield one, None
            continue
        for skipped in waiting[: waiting.index(other)]:
            yield None, skipped
        del waiting[: waiting.index(other) + 1]
        yield one, other
    for each in waiting:
        yield None, each


def _compared(message: Message) -> list[Any]:
    """Return the compared fields of a message: no ids, which link calls and results within a run."""
    parts = [
        [part.type, part.text, part.name, part.value, part.is_error, part.data, part.uri]
        for part in message.parts
    ]
    return [message.role, parts]


def _key(message: Message) -> bytes:
    compared = msgspec.json.encode(without_fresh(_compared(message)), order="sorted")
    return hashlib.blake2b(compared, digest_size=16).digest()
