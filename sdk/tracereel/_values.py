"""Arbitrary Python values as bounded text, sizes and JSON, without running any code of theirs.

An argument of a traced call may raise in `__repr__`, refer to itself, hold 50 MB, or query a
database when iterated. So nothing here calls `repr`, `str`, `len`, `__iter__` or a property of a
type it does not know: known types are read through their base class, other objects through their
fields, and everything stops at a budget.
"""

import math
import operator
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from pathlib import PosixPath, PurePosixPath, PureWindowsPath
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from tracereel import _guard, _written
from tracereel._small_values import MAX_INTEGER as MAX_INTEGER
from tracereel._small_values import copy, is_small_and_plain, portrait
from tracereel._texts import ELLIPSIS, shortened
from tracereel._texts import HASHED_LIMIT as HASHED_LIMIT
from tracereel._texts import SHORT_LIMIT as SHORT_LIMIT
from tracereel._texts import TEXT_LIMIT as TEXT_LIMIT
from tracereel._texts import Cut as Cut
from tracereel._texts import about_cut as about_cut
from tracereel._texts import text as text
from tracereel.semconv import SUMMARY_LIMIT

_SUMMARY_DEPTH: Final = 4
_PLAIN_DEPTH: Final = 12
_PLAIN_NODES: Final = 2_000
_PLAIN_CHARS: Final = 65_536
_SIZE_NODES: Final = 500
_SIZE_SAMPLE: Final = 4_096
_MAX_INT_BITS: Final = 512
_MISSING: Final = object()

_AS_STR: Final = frozenset(
    id(kind)
    for kind in (
        *(datetime, date, time, timedelta, Decimal, UUID, ZoneInfo, complex, range),
        *(PosixPath, PurePosixPath, PureWindowsPath),
    )
)
"""Standard types whose own text is short, cheap and runs nothing of the user's.

By id, because a class whose metaclass has an `__eq__` of its own may not be hashable.
"""
_SEQUENCES: Final = (list, tuple, set, frozenset, deque)
_CALLABLES: Final = (FunctionType, BuiltinFunctionType, MethodType)


_encoder = msgspec.json.Encoder()
_CLASS_NAME: Final = type.__getattribute__
_TYPE_NAMES: Final = {
    id(kind): kind.__name__
    for kind in (str, int, float, bool, dict, list, tuple, set, bytes, type(None))
}
"""By id, as above."""


class Encoded(dict[str, Any]):
    """An event that is JSON already; as a dictionary it is empty."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.body = body


def encode(event: dict[str, Any]) -> bytes:
    """An event as one line of JSON (no newline) that a strict reader accepts; NaN becomes null."""
    if isinstance(event, Encoded):
        return event.body
    try:
        return _encoder.encode(event)
    except Exception as raised:  # noqa: BLE001 - lone surrogates, odd types: mended below, whatever they are
        _guard.pass_on(raised)
        data = _written.read_all(dict(event))
        return _encoder.encode(plain(data, nodes=20 * _PLAIN_NODES, chars=20 * _PLAIN_CHARS))


def label(value: Any, limit: int = SHORT_LIMIT) -> str | None:
    """A value meant to be a short string (a name, a code): text if there is any, else null."""
    return None if value is None else summary(value, limit)


def ratio(value: Any) -> float | None:
    """A number between 0 and 1, or null."""
    number = real(value)
    return number if number is not None and 0.0 <= number <= 1.0 else None


def real(value: Any) -> float | None:
    """A finite number, or null."""
    if value is None or issubclass(type(value), (str, bytes, bool)):
        return None
    try:
        number = float(value)
    except Exception as raised:  # noqa: BLE001 - whatever its __float__ does, it is not a number for us
        _guard.pass_on(raised)
        return None
    return number if math.isfinite(number) else None


def count(value: Any) -> int | None:
    """A whole number from 0 to 2^63-1, or null."""
    if value is None or issubclass(type(value), bool):
        return None
    try:
        number = int(operator.index(value))
    except Exception as raised:  # noqa: BLE001 - whatever its __index__ does, it is not a count for us
        _guard.pass_on(raised)
        return None
    return number if 0 <= number <= MAX_INTEGER else None


def type_name(value: Any) -> str:
    """The name of a value's class."""
    kind = type(value)
    known = _TYPE_NAMES.get(id(kind))
    return known if known is not None else text(_CLASS_NAME(kind, "__name__"), SHORT_LIMIT)


def described(value: Any, *, captures: bool) -> tuple[str, str, int]:
    """The name of a value's class, its summary (empty where it is not captured) and its size."""
    kind = type(value)
    if (kind is dict or kind is list or kind is tuple) and is_small_and_plain(value):
        whole = repr(value) if captures else ""
        if len(whole) <= SUMMARY_LIMIT and _is_flat(whole):
            try:
                return kind.__name__, text(whole, SUMMARY_LIMIT), len(_encoder.encode(value))
            except UnicodeEncodeError:  # a lone surrogate
                pass
    return type_name(value), summary(value) if captures else "", size(value)


def told(value: Any, written: bytes | None = None) -> tuple[int, Any, str]:
    """The size of a value, the value as JSON data, its summary; by one look where it is small.

    `written` is its JSON where somebody has just written it down.
    """
    small = portrait(value, written)
    if small is None:
        return size(value), plain(value), summary(value)
    length, data, shown = small
    if len(shown) <= SUMMARY_LIMIT and _is_flat(shown):
        return length, data, text(shown, SUMMARY_LIMIT)
    return length, data, summary(value)


def summary(value: Any, limit: int = SUMMARY_LIMIT) -> str:
    """A value in at most `limit` characters, for people: a string as it is, others by structure."""
    if issubclass(type(value), str):
        return text(value, limit)
    return text(_describe(value, limit, _SUMMARY_DEPTH), limit)


def call_summary(arguments: Sequence[tuple[str, object]], limit: int = SUMMARY_LIMIT) -> str:
    """The arguments of a call in at most `limit` characters: `prompt: 'at ten', days: 3`."""
    if len(arguments) == 1 and type(arguments[0][1]) is str:
        name, value = arguments[0]
        return text(f"{name}: {value[: limit + 1]!r}", limit)  # type: ignore[index]
    parts: list[str] = []
    left = limit + 1
    for name, value in arguments:
        part = f"{', ' if parts else ''}{name}: {_describe(value, left, _SUMMARY_DEPTH)}"
        parts.append(part)
        left -= len(part)
        if left <= 0:
            break
    return text("".join(parts), limit)


def plain(value: Any, *, nodes: int = _PLAIN_NODES, chars: int = _PLAIN_CHARS) -> Any:
    """A value as JSON data: bounded in depth, nodes and characters, unique string keys, no NaN."""
    copied = copy(value)
    return copied if copied is not None else _Plain(nodes, chars).convert(value, _PLAIN_DEPTH)


def plain_dict(value: Any) -> dict[str, Any] | None:
    """A value as a JSON object; what is not one is put under `value`."""
    if value is None:
        return None
    data = plain(value)
    return data if isinstance(data, dict) else {"value": data}


def size(value: Any) -> int:
    """About as many bytes as the value's JSON form has; extrapolated for huge values.

    Escapes are not counted. Of an object that has no fields to read, the bytes its own `nbytes`
    says (arrays), else 0: it cannot be known cheaply.
    """
    kind = type(value)
    if kind is str:
        return _text_bytes(value) + 2
    if (kind is dict or kind is list or kind is tuple) and is_small_and_plain(value):
        try:
            return len(_encoder.encode(value))
        except UnicodeEncodeError:  # a lone surrogate
            pass
    return min(_Size().measure(value, _PLAIN_DEPTH), MAX_INTEGER)


def _is_flat(shown: str) -> bool:
    """Whether the text of a value is certain not to be deeper than a summary goes."""
    return shown.count("[") + shown.count("{") + shown.count("(") <= _SUMMARY_DEPTH


def _describe(value: Any, left: int, depth: int) -> str:
    """Text of about `left` characters at most; each value yields some, so work is bounded too."""
    kind = type(value)
    container = kind is dict or kind is list or kind is tuple
    if container and depth == _SUMMARY_DEPTH and is_small_and_plain(value):
        whole = repr(value)
        if len(whole) <= left and _is_flat(whole):
            return whole
    if issubclass(kind, str):
        cut = str.__getitem__(value, slice(0, max(left, 1)))
        return repr(str(cut))
    if (scalar := _scalar_text(value, kind)) is not None:
        return scalar
    if depth <= 0:
        return ELLIPSIS
    if issubclass(kind, dict):
        return _join(
            "{", _pairs(value, left), "}", left, depth, key=lambda key: _describe(key, left, 1)
        )
    if (items := _items(value, kind, left)) is not None:
        opening, closing = ("(", ")") if issubclass(kind, tuple) else ("[", "]")
        if issubclass(kind, (set, frozenset)):
            opening, closing = "{", "}"
        return _join(opening, ((None, item) for item in items), closing, left, depth)
    if (fields := _fields(value, kind, left)) is not None:
        return _join(f"{type_name(value)}(", fields, ")", left, depth, key=str)
    return f"<{type_name(value)}>"


def _join(
    opening: str,
    pairs: Iterable[tuple[Any, object]],
    closing: str,
    left: int,
    depth: int,
    key: Any = None,
) -> str:
    parts: list[str] = []
    left -= len(opening) + len(closing)
    for name, item in pairs:
        if left <= 0:
            parts.append(ELLIPSIS)
            break
        shown = f"{key(name)}: " if key is not None else ""
        part = f"{', ' if parts else ''}{shown}{_describe(item, left, depth - 1)}"
        parts.append(part)
        left -= len(part)
    return f"{opening}{''.join(parts)}{closing}"


def _scalar_text(value: Any, kind: type) -> str | None:
    if value is None or kind is bool or kind is float:
        return repr(value)
    if issubclass(kind, Enum):
        return f"{kind.__name__}.{_attribute(value, '_name_')}"
    if issubclass(kind, int):
        bits = int.bit_length(value)
        return int.__repr__(value) if bits <= _MAX_INT_BITS else f"<int of {bits} bits>"
    if issubclass(kind, float):
        return float.__repr__(value)
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return f"<{_byte_length(value, kind)} bytes>"
    if id(kind) in _AS_STR:
        try:
            return str(value)[:SUMMARY_LIMIT]
        except Exception as raised:  # noqa: BLE001 - a time zone of the user's may raise
            _guard.pass_on(raised)
            return f"<{kind.__name__}>"
    if issubclass(kind, type):
        return f"<class {type.__getattribute__(value, '__name__')}>"
    if issubclass(kind, _CALLABLES):
        return f"<function {getattr(value, '__name__', '?')}>"
    if issubclass(kind, ModuleType):
        return f"<module {_attribute(value, '__name__')}>"
    return None


def _byte_length(value: Any, kind: type) -> int:
    if issubclass(kind, memoryview):
        return int(value.nbytes)
    known = bytes if issubclass(kind, bytes) else bytearray
    return known.__len__(value)


def _pairs(value: Any, most: int) -> Iterator[tuple[object, object]]:
    return iter(_take(dict.items(value), most))


def _items(value: Any, kind: type, most: int) -> list[object] | None:
    for known in _SEQUENCES:
        if issubclass(kind, known):
            return _take(known.__iter__(value), most)
    return None


def _take(items: Iterable[Any], most: int) -> list[Any]:
    """The first items; another thread may be changing the collection meanwhile."""
    taken: list[Any] = []
    try:
        taken.extend(islice(items, max(most, 1)))
    except RuntimeError:
        pass
    return taken


def _fields(value: Any, kind: type, most: int) -> list[tuple[str, object]] | None:
    """The data of an object: declared fields, or its instance dictionary; null without either."""
    for marker in ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__"):
        declared = _declared(kind, marker)
        if declared is not None:
            pairs = [(name, _attribute(value, name)) for name in declared[:most]]
            return [pair for pair in pairs if pair[1] is not _MISSING]
    own = _attribute(value, "__dict__")
    if type(own) is not dict:
        return None
    if issubclass(kind, BaseException):
        own = {"args": _attribute(value, "args"), **own}
    public = ((name, item) for name, item in _take(own.items(), most) if type(name) is str)
    return [(name, item) for name, item in public if not name.startswith("_")]


def _declared(kind: type, marker: str) -> list[str] | None:
    try:
        # By `type` itself: msgspec has its list on the metaclass, the others on the class.
        fields = type.__getattribute__(kind, marker)
    except AttributeError:
        return None
    if type(fields) is not dict and not issubclass(type(fields), tuple):
        return None
    return [str(getattr(item, "name", item)) for item in fields]


def _attribute(value: Any, name: str) -> Any:
    """An attribute by the plain machinery of `object`: slots and dictionaries, no `__getattr__`."""
    found = class_attribute(type(value), name)
    if isinstance(found, property):
        return _MISSING
    try:
        return object.__getattribute__(value, name)
    except Exception as raised:  # noqa: BLE001 - an unset slot, or a descriptor that raises
        _guard.pass_on(raised)
        return _MISSING


def class_attribute(kind: type, name: str) -> Any:
    """What a class or a base of it defines, without running code of the user's."""
    for base in type.__getattribute__(kind, "__mro__"):
        found = type.__getattribute__(base, "__dict__").get(name, _MISSING)
        if found is not _MISSING:
            return found
    return _MISSING


class _Plain:
    """One conversion to JSON data, with what is left of its budget."""

    def __init__(self, nodes: int, chars: int) -> None:
        self._nodes = nodes
        self._chars = chars
        self._path: set[int] = set()

    def convert(self, value: Any, depth: int) -> Any:
        self._nodes -= 1
        kind = type(value)
        if value is None or kind is bool:
            return value
        if issubclass(kind, str):
            return self._text(value)
        if issubclass(kind, Enum):
            return self._text(str(_scalar_text(value, kind)))
        if issubclass(kind, int) and -MAX_INTEGER <= value <= MAX_INTEGER:
            return int.__int__(value)
        if issubclass(kind, float):
            number = float.__float__(value)
            return number if math.isfinite(number) else None
        if (scalar := _scalar_text(value, kind)) is not None:
            return self._text(scalar)
        if id(value) in self._path:
            return "<cycle>"
        if depth <= 0 or self._nodes <= 0:
            return ELLIPSIS
        self._path.add(id(value))
        try:
            return self._container(value, kind, depth)
        finally:
            self._path.discard(id(value))

    def _container(self, value: Any, kind: type, depth: int) -> Any:
        if issubclass(kind, dict):
            return self._object(_pairs(value, self._nodes), depth)
        if (items := _items(value, kind, self._nodes)) is not None:
            return [self.convert(item, depth - 1) for item in items if self._nodes > 0]
        if (fields := _fields(value, kind, self._nodes)) is not None:
            return self._object(fields, depth)
        return self._text(f"<{type_name(value)}>")

    def _object(self, pairs: Iterable[tuple[object, Any]], depth: int) -> dict[str, Any]:
        converted: dict[str, Any] = {}
        for key, item in pairs:
            if self._nodes <= 0:
                break
            name = text(summary(key), SHORT_LIMIT)
            # 1 and "1" are two keys in Python and one in JSON: the first keeps the name.
            while name in converted:
                name += "'"
            converted[name] = self.convert(item, depth - 1)
            if issubclass(type(item), str) and str.__len__(item) > TEXT_LIMIT:
                converted.setdefault(f"{name}_truncated", about_cut(item))
        return converted

    def _text(self, value: str) -> str:
        kept = shortened(value, max(min(TEXT_LIMIT, self._chars), 1))
        self._chars -= len(kept)
        return kept


class _Size:
    """One measurement; after its budget of nodes, the rest counts as much as what was seen."""

    def __init__(self) -> None:
        self._nodes = _SIZE_NODES

    def measure(self, value: Any, depth: int) -> int:
        self._nodes -= 1
        kind = type(value)
        if issubclass(kind, str):
            return _text_bytes(value) + 2
        if issubclass(kind, (bytes, bytearray, memoryview)):
            return _byte_length(value, kind)
        if (scalar := _scalar_text(value, kind)) is not None:
            return len(scalar)
        if depth <= 0:
            return 1
        most = max(self._nodes, 1)
        if issubclass(kind, dict):
            pairs = _take(dict.items(value), most)
            seen = [self.measure(k, 1) + self.measure(v, depth - 1) + 2 for k, v in pairs]
            return 2 + _extrapolate(seen, dict.__len__(value))
        for known in _SEQUENCES:
            if issubclass(kind, known):
                items = _take(known.__iter__(value), most)
                seen = [self.measure(item, depth - 1) + 1 for item in items]
                return 2 + _extrapolate(seen, known.__len__(value))
        fields = _fields(value, kind, most)
        if fields is None:
            return _own_bytes(value, kind)
        return 2 + sum(len(name) + 4 + self.measure(item, depth - 1) for name, item in fields)


def _text_bytes(value: str) -> int:
    length = str.__len__(value)
    if str.isascii(value):
        return length
    if length <= 3 * _SIZE_SAMPLE:
        return len(str.encode(value, "utf-8", "replace"))
    starts = (0, (length - _SIZE_SAMPLE) // 2, length - _SIZE_SAMPLE)
    sample = "".join(str.__getitem__(value, slice(at, at + _SIZE_SAMPLE)) for at in starts)
    return len(sample.encode("utf-8", "replace")) * length // len(sample)


def _own_bytes(value: Any, kind: type) -> int:
    """What `nbytes` says, where reading it runs no Python code of the type's."""
    found = class_attribute(kind, "nbytes")
    if type(found) not in (GetSetDescriptorType, MemberDescriptorType):
        return 0
    told = _attribute(value, "nbytes")
    return told if type(told) is int and told > 0 else 0


def _extrapolate(seen: Sequence[int], length: int) -> int:
    if not seen:
        return 0
    total = sum(seen)
    return total if length <= len(seen) else total * length // len(seen)
