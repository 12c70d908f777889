"""Bounded reading of data of unknown shape; no function here raises."""

import base64
import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from pydantic import BaseModel

from tracereel.content.model import ContentCut

MAX_DEPTH: Final = 64
"""Levels of a value; deeper ones are cut."""
MAX_NODES: Final = 200_000
"""Containers and values of one value; more are cut."""
MAX_TEXT: Final = 16 * 1024 * 1024
"""Longest text that is searched for JSON."""
CUT: Final = "…"
"""Replaces values that are too deep or too many."""

_REMOVED: Final = re.compile(r"…\[([0-9]{1,12}) characters removed\]…")
_REMOVED_END: Final = " characters removed]…"
_SHORTENED: Final = re.compile(r"… \[cut: ([0-9]{1,12}) bytes, sha256 [0-9a-f]{1,64}\]$")
_DATA_URI: Final = re.compile(r"data:([\w.+/-]{0,100})((?:;[\w.+=-]{1,100}){0,4});base64,")

_decode: Final = msgspec.json.Decoder().decode


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a value's fields: of a dictionary, a pydantic model or a dataclass; else none."""
    if isinstance(value, dict):
        return value
    if isinstance(value, BaseModel) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        found = getattr(value, "__dict__", None)
        return found if isinstance(found, dict) else {}
    return {}


def items(value: Any) -> list[Any]:
    """Return a list's items; of anything else none."""
    if isinstance(value, list):
        return value
    return list(value) if isinstance(value, tuple) else []


def first(fields: Mapping[str, Any], *names: str) -> Any:
    """Return the first of some fields that is not None."""
    for name in names:
        found = fields.get(name)
        if found is not None:
            return found
    return None


def word(value: Any) -> str | None:
    """Return a short text such as an id or a name; None if it is no text or empty."""
    if isinstance(value, str) and value:
        return text(value)[:1000]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)[:1000] if value.bit_length() < 1000 else None
    return None


def text(value: str) -> str:
    """Return a text that can be encoded: lone surrogates are replaced."""
    value = str.__str__(value)
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace").decode()
    return value


def count(value: Any) -> int | None:
    """Return a number that is a count; None if it is not one."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 2**63 else None


def number(value: Any) -> float | None:
    """Return a finite number; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def parsed(value: Any) -> Any:
    """Return the value of a text that is a JSON object or list; anything else unchanged."""
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        return value
    begin = value.lstrip()[:1]
    if begin not in ("{", "["):
        return value
    try:
        return _decode(value)
    except (ValueError, RecursionError):  # also msgspec.DecodeError and wrong encodings
        return value


def plain(value: Any) -> Any:
    """Return a value as JSON data: bounded in depth and size, otherwise unchanged."""
    return _Copy().of(value, MAX_DEPTH)


class _Copy:
    """Bounded copy of a value."""

    def __init__(self) -> None:
        self.left = MAX_NODES

    def of(self, value: Any, depth: int) -> Any:
        if value is None or value is True or value is False:
            return value
        self.left -= 1
        if isinstance(value, str):
            return text(value)
        if isinstance(value, int):
            return int.__int__(value) if value.bit_length() < 64 else str(value)[:1000]
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, bytes | bytearray):
            return base64.b64encode(value).decode()
        if depth <= 0 or self.left <= 0:
            return CUT
        if isinstance(value, list | tuple | set | frozenset):
            return [self.of(item, depth - 1) for item in self._some(value)]
        if fields := mapping(value):
            return {
                text(key) if isinstance(key, str) else f"{type(key).__name__}": self.of(
                    item, depth - 1
                )
                for key, item in self._some(fields.items())
            }
        return {} if isinstance(value, Mapping) else f"<{type(value).__name__}>"

    def _some(self, values: Iterable[Any]) -> Iterable[Any]:
        for value in values:
            if self.left <= 0:
                return
            yield value


def cut_of(value: str) -> ContentCut | None:
    """Return the cut in the middle of a text."""
    if _REMOVED_END not in value:
        return _cut_at_the_end(value)
    found = _REMOVED.search(value)
    if found is None:
        return None
    removed = int(found[1])
    whole = len(value) - len(found[0]) + removed
    return ContentCut(length=whole, removed=removed, at=found.start())


def _cut_at_the_end(value: str) -> ContentCut | None:
    """Return what the collector removed from the end of an attribute that was too long."""
    found = _SHORTENED.search(value[-160:]) if value.endswith("]") else None
    if found is None:
        return None
    kept = len(value) - len(found[0])
    length = max(kept, int(found[1]))
    return ContentCut(length=length, removed=length - kept, at=kept)


def cut_beside(fields: Mapping[str, Any], name: str, value: Any) -> ContentCut | None:
    """Return what `<name>_truncated` says about a text whose end was removed."""
    length = count(mapping(fields.get(f"{name}_truncated")).get("length"))
    if length is None or not isinstance(value, str) or length <= len(value):
        return None
    return ContentCut(length=length, removed=length - len(value), at=len(value))


def cut_inside(value: Any) -> ContentCut | None:
    """Return the sum of all cuts in the texts of a value."""
    length = removed = 0
    waiting, left = [value], MAX_NODES
    while waiting and left > 0:
        left -= 1
        each = waiting.pop()
        if isinstance(each, str):
            if (cut := cut_of(each)) is not None:
                length, removed = length + cut.length, removed + cut.removed
        elif isinstance(each, list | tuple):
            waiting.extend(each[:left])
        else:
            waiting.extend(list(mapping(each).values())[:left])
    return ContentCut(length=length, removed=removed) if removed else None


def data_uri(value: str) -> tuple[str | None, str] | None:
    """Return media type and base64 of a `data:` address; None if it is another one."""
    if value[:5].lower() != "data:":
        return None
    found = _DATA_URI.match(value[:700])
    if found is None:
        return None
    return found[1] or None, text(value[found.end() :])


def base64_size(data: str) -> int:
    """Return the bytes that a base64 text encodes."""
    return max(0, len(data) * 3 // 4 - data[-2:].count("="))
