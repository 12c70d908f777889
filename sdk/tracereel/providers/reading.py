"""Conversion of provider objects to plain data, and safe access to their fields.

Clients return dictionaries, pydantic models, dataclasses or custom objects. All are read by field.
Reading never raises, and depth and number of nodes are bounded.
"""

import base64
import math
import sys
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

import msgspec

from tracereel._redact.plain_data import BYTES, Pairs, Walk

_MAX_DEPTH: Final = 64
_MAX_CONTAINERS: Final = 200_000
_SCALARS: Final = frozenset({str, int, float, bool})
_NOTHING: Final[dict[str, Any]] = {}
_KNOWN_NAMES: Final = (
    *("type", "role", "id", "name", "content", "model", "usage", "tool_calls", "tool_call_id"),
    *("usage_metadata", "response_metadata", "additional_kwargs", "invalid_tool_calls", "status"),
    *("stop_reason", "choices", "output", "candidates", "messages", "text", "thinking", "input"),
)
"""Attributes to try on an object without instance fields."""


def as_data(value: Any) -> Any:
    """Return a value as dictionaries, lists, strings, numbers, booleans and None."""
    return _ProviderData(_MAX_CONTAINERS).visit(value, _MAX_DEPTH)


class _ProviderData(Walk[Any]):
    """Conversion of client objects: full texts, enums by value, bytes as base64."""

    def room(self) -> int:
        # Numbers are not counted: a response may hold about 100,000 of them (embeddings).
        return sys.maxsize if self.nodes > 0 else 0

    def fields(self, value: Any, kind: type, most: int) -> Pairs | None:  # noqa: ARG002 - a hook
        return list(_fields(value).items()) or None

    def text(self, value: str) -> Any:
        return str.__str__(value)

    def scalar(self, value: Any, kind: type) -> Any:
        if issubclass(kind, Enum):
            return self.visit(value.value, 1)
        if value is None or kind is bool:
            return value
        if issubclass(kind, int):
            return int.__int__(value)
        if issubclass(kind, float):
            return float.__float__(value)
        if issubclass(kind, BYTES):
            return base64.b64encode(bytes(value)).decode("ascii")
        return fields_text(value)

    def mapping(self, _value: Any, pairs: Pairs, _length: int, depth: int) -> Any:
        return {
            key if type(key) is str else fields_text(key): item
            if type(item) in _SCALARS
            else self.visit(item, depth)
            for key, item in pairs
        }

    def sequence(self, _value: Any, items: Sequence[Any], _length: int, depth: int) -> Any:
        return [item if type(item) in _SCALARS else self.visit(item, depth) for item in items]

    def record(self, value: Any, fields: Pairs, depth: int) -> Any:
        return self.mapping(value, fields, len(fields), depth)

    def opaque(self, value: Any) -> Any:
        return fields_text(value)

    def cut(self) -> Any:
        return None

    def cycle(self) -> Any:
        return None


def _fields(value: Any) -> dict[str, Any]:
    try:
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.asdict(value)
        own = {k: v for k, v in getattr(value, "__dict__", {}).items() if not k.startswith("_")}
        extra = getattr(value, "__pydantic_extra__", None)
        if isinstance(extra, dict):
            own |= extra
        if own:
            return own
        dump = getattr(value, "model_dump", None)
        if callable(dump) and isinstance(dumped := dump(), dict):
            return dumped
        found = {name: getattr(value, name, None) for name in _KNOWN_NAMES}
        return {k: v for k, v in found.items() if v is not None and not callable(v)}
    except Exception:  # noqa: BLE001 - an object that raises has no fields
        return {}


def fields_text(value: Any) -> str:
    """Return a short text for a value that is not data."""
    try:
        return str(value)[:200]
    except Exception:  # noqa: BLE001 - its `__str__` may raise
        return type(value).__name__


class _Attributes:
    """Wrapper that reads attributes of any object like dictionary keys."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self, name: str) -> Any:
        try:
            return getattr(self._value, name, None)
        except Exception:  # noqa: BLE001 - a property may raise
            return None


def table(value: Any) -> Any:
    """Return an object with a `get` method for the fields of a dictionary or object.

    For pydantic models this is their field dictionary, because lookups of missing attributes are
    slow.
    """
    if isinstance(value, dict):
        return value
    if value is None:
        return _NOTHING
    try:
        extra = value.__pydantic_extra__
        own = value.__dict__
    except Exception:  # noqa: BLE001 - not a pydantic model, or it raises
        return _Attributes(value)
    return {**own, **extra} if extra else own


def get(value: Any, *names: str) -> Any:
    """Return the first field that is not `None`, of a dictionary or an object."""
    fields = table(value)
    for name in names:
        if (found := fields.get(name)) is not None:
            return found
    return None


def first_text(value: Any, *names: str) -> str | None:
    """Return the first field that is a non-empty string, of a dictionary or an object."""
    fields = table(value)
    for name in names:
        if (found := text(fields.get(name))) is not None:
            return found
    return None


def text(value: Any) -> str | None:
    """Return a non-empty string, or `None`."""
    return value if isinstance(value, str) and value else None


def word(value: Any) -> str | None:
    """Return a non-empty string or string enum value as a plain string, or `None`."""
    if isinstance(value, Enum):
        value = value.value
    return str(value) if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """Return a non-negative integer, or `None`; whole floats are accepted."""
    if type(value) is int:  # the most frequent case
        return value if 0 <= value < 2**63 else None
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 2**63 else None


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is a dictionary, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def json_object(value: Any) -> tuple[dict[str, Any], str | None]:
    """Return tool arguments, and the original text if it is not a JSON object."""
    if isinstance(value, dict):
        return value, None
    if value is None or value == "":
        return {}, None
    if isinstance(value, str):
        try:
            decoded = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            return {}, value
        return (decoded, None) if isinstance(decoded, dict) else ({}, value)
    return {}, fields_text(value)


def plain_text(value: Any) -> str | None:
    """Return the text of a message's content: a string, or the texts of its blocks."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return None
    parts = [
        each if isinstance(each, str) else each.get("text")
        for each in value
        if isinstance(each, (str, dict))
    ]
    found = [part for part in parts if isinstance(part, str)]
    return "".join(found) if found else None
