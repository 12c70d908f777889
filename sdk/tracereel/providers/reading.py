"""Provider objects as plain data, and safe ways to read fields of what may be anything.

Clients give dictionaries, pydantic models, dataclasses or objects of their own. Everything is read
through its fields; nothing that is found raises, and depth and number of nodes are bounded.
"""

import base64
import math
from enum import Enum
from typing import Any, Final

import msgspec

_MAX_DEPTH: Final = 64
_MAX_NODES: Final = 200_000
_SCALARS: Final = frozenset({str, int, float, bool})
_NOTHING: Final[dict[str, Any]] = {}
_KNOWN_NAMES: Final = (
    *("type", "role", "id", "name", "content", "model", "usage", "tool_calls", "tool_call_id"),
    *("usage_metadata", "response_metadata", "additional_kwargs", "invalid_tool_calls", "status"),
    *("stop_reason", "choices", "output", "candidates", "messages", "text", "thinking", "input"),
)
"""What an object without fields of its own (all of them on its class) is asked for."""


def as_data(value: Any) -> Any:
    """A value as dictionaries, lists, strings, numbers, booleans and null."""
    return _convert(value, _MAX_DEPTH, [_MAX_NODES])


def _convert(value: Any, depth: int, nodes: list[int]) -> Any:
    kind = type(value)
    if value is None or kind in _SCALARS:
        return value
    nodes[0] -= 1
    if depth <= 0 or nodes[0] <= 0:
        return None
    if isinstance(value, dict):
        return {_key(k): _convert(v, depth - 1, nodes) for k, v in list(dict.items(value))}
    if isinstance(value, (list, tuple)):
        return [_convert(each, depth - 1, nodes) for each in list(value)]
    if isinstance(value, Enum):
        return _convert(value.value, depth - 1, nodes)
    for base in (str, int, float):
        if isinstance(value, base):
            return _based(base, value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, (set, frozenset)):
        return [_convert(each, depth - 1, nodes) for each in value]
    return _convert_object(value, depth, nodes)


def _based(base: Any, value: Any) -> Any:
    return base.__str__(value) if base is str else base.__add__(value, base(0))


def _key(value: Any) -> str:
    return value if type(value) is str else fields_text(value)


def _convert_object(value: Any, depth: int, nodes: list[int]) -> Any:
    fields = _fields(value)
    if not fields:
        return fields_text(value)
    return {name: _convert(each, depth - 1, nodes) for name, each in fields.items()}


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
    except Exception:  # noqa: BLE001 - whatever the object does when it is looked at, it has no fields then
        return {}


def fields_text(value: Any) -> str:
    """A value that is no data as a short text."""
    try:
        return str(value)[:200]
    except Exception:  # noqa: BLE001 - an object that cannot even be told
        return type(value).__name__


class _Attributes:
    """An object of no known kind, read like a dictionary."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self, name: str) -> Any:
        return _attribute(self._value, name)


def table(value: Any) -> Any:
    """Something with a `get` for the fields of a dictionary or of an object.

    Of pydantic's models the fields themselves: asking one for what it has not is slow.
    """
    if isinstance(value, dict):
        return value
    if value is None:
        return _NOTHING
    try:
        extra = value.__pydantic_extra__
        own = value.__dict__
    except Exception:  # noqa: BLE001 - not such a model, or one that does not want to be read
        return _Attributes(value)
    return {**own, **extra} if extra else own


def get(value: Any, *names: str) -> Any:
    """The first of the fields that is there and not null; of dictionaries and of objects."""
    fields = table(value)
    for name in names:
        if (found := fields.get(name)) is not None:
            return found
    return None


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property that raises gives nothing
        return None


def text(value: Any) -> str | None:
    """A string that has something in it, or null."""
    return value if isinstance(value, str) and value else None


def word(value: Any) -> str | None:
    """A string or the value of an enum, as a plain string."""
    if isinstance(value, Enum):
        value = value.value
    return str(value) if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """A whole number from 0 on, or null; a float that is whole counts."""
    if type(value) is int:  # nearly always
        return value if 0 <= value < 2**63 else None
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 2**63 else None


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is a dictionary, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def json_object(value: Any) -> tuple[dict[str, Any], str | None]:
    """Arguments of a tool, and the text they came in where that is no JSON object."""
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
    """The text in a message's content: a string, or the texts of its blocks."""
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
