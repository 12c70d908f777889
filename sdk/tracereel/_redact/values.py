"""Conversion of values to JSON data, sizes, summaries and scalar fields.

All results are bounded, and no code of the value runs (see `plain_data`).
"""

import math
import operator
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, Final, NamedTuple

import msgspec

from tracereel._redact.plain_data import BYTES, CALLABLES, Pairs, Result, Walk, take
from tracereel._redact.text_limits import ELLIPSIS, distinct, shortened
from tracereel._redact.text_limits import HASHED_LIMIT as HASHED_LIMIT
from tracereel._redact.text_limits import SHORT_LIMIT as SHORT_LIMIT
from tracereel._redact.text_limits import TEXT_LIMIT as TEXT_LIMIT
from tracereel._redact.text_limits import Cut as Cut
from tracereel._redact.text_limits import about_cut as about_cut
from tracereel._redact.text_limits import text as text
from tracereel._runtime import guard
from tracereel.semconv import CONTENT_BYTES, CONTENT_FIELDS, LARGE_CONTENT, SUMMARY_LIMIT

MAX_INTEGER: Final = 2**63 - 1
CYCLE: Final = "<cycle>"

_SUMMARY_DEPTH: Final = 4
_PLAIN_DEPTH: Final = 12
_PLAIN_NODES: Final = 2_000
_PLAIN_CHARS: Final = 65_536
_MAX_NODES: Final = 1_000_000
_MAX_DEPTH: Final = 40
_SIZE_NODES: Final = 500
_SIZE_SAMPLE: Final = 4_096
_MAX_INT_BITS: Final = 512
_MISSING: Final = object()
_MARKERS: Final = ("__dataclass_fields__", "__struct_fields__", "__attrs_attrs__")
_PYDANTIC: Final = ("__pydantic_fields__", "__fields__")

_LAST_FIELDS: Final = (*CONTENT_FIELDS, "records")
"""Fields at the end of a line if they are large; `records` are those of a tape."""

_encoder: Final = msgspec.json.Encoder()


class EncodedEvent(dict[str, Any]):
    """Event that is already encoded as JSON; as a dictionary it is empty."""

    __slots__ = ("line",)

    def __init__(self, line: "Line") -> None:
        super().__init__()
        self.line = line


class Line(NamedTuple):
    """Event as JSON, cut where further fields may be added: before large content."""

    head: bytes
    """Opening brace and facts."""
    tail: bytes
    """Large content, and the closing brace."""

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self.head) + len(self.tail)


def encode(event: dict[str, Any]) -> bytes:
    """Return an event as one line of strict JSON (no newline); NaN becomes null."""
    return b"".join(encode_line(event))


def encode_line(event: dict[str, Any]) -> Line:
    """Return an event as JSON with large content at the end, after `content_bytes`."""
    if isinstance(event, EncodedEvent):
        return event.line
    body = _encoded(event)
    if len(body) > LARGE_CONTENT:
        content = {name: event[name] for name in _LAST_FIELDS if event.get(name) is not None}
        written = _encoded(content) if content else b""
        if len(written) > LARGE_CONTENT:
            facts = {name: value for name, value in event.items() if name not in content}
            facts.pop(CONTENT_BYTES, None)
            tail = b',"%s":%d,%s' % (CONTENT_BYTES.encode(), len(written), written[1:])
            return Line(_encoded(facts)[:-1], tail)
    return Line(body[:-1], b"}")


def _encoded(data: dict[str, Any]) -> bytes:
    try:
        return _encoder.encode(data)
    except Exception as raised:  # noqa: BLE001 - lone surrogates, odd types: converted below
        guard.pass_on(raised)
        return _encoder.encode(converted(data))


def encoded_size(value: Any) -> int:
    """Return the bytes of JSON data."""
    return len(_encoder.encode(value))


def label(value: Any, limit: int = SHORT_LIMIT) -> str | None:
    """Return a name or code as short text, or None."""
    return None if value is None else summary(value, limit)


def ratio(value: Any) -> float | None:
    """Return a number between 0 and 1, or None."""
    number = real(value)
    return number if number is not None and 0.0 <= number <= 1.0 else None


def real(value: Any) -> float | None:
    """Return a finite number, or None."""
    if value is None or issubclass(type(value), (str, bytes, bool)):
        return None
    try:
        number = float(value)
    except Exception as raised:  # noqa: BLE001 - __float__ may raise anything
        guard.pass_on(raised)
        return None
    return number if math.isfinite(number) else None


def count(value: Any) -> int | None:
    """Return a whole number from 0 to 2^63-1, or None."""
    if value is None or issubclass(type(value), bool):
        return None
    try:
        number = int(operator.index(value))
    except Exception as raised:  # noqa: BLE001 - __index__ may raise anything
        guard.pass_on(raised)
        return None
    return number if 0 <= number <= MAX_INTEGER else None


def summary(value: Any, limit: int = SUMMARY_LIMIT) -> str:
    """Describe a value in at most `limit` characters; strings are kept as they are."""
    if issubclass(type(value), str):
        return text(value, limit)
    return text(_Summary(limit).visit(value, _SUMMARY_DEPTH), limit)


def call_summary(arguments: Sequence[tuple[str, object]], limit: int = SUMMARY_LIMIT) -> str:
    """Describe arguments in at most `limit` characters: `prompt: 'at ten', days: 3`."""
    walk = _Summary(limit + 1)
    return text(walk.joined("", arguments, "", _SUMMARY_DEPTH, key=walk.name), limit)


def plain(value: Any, *, nodes: int = _PLAIN_NODES, chars: int = _PLAIN_CHARS) -> Any:
    """Convert a value to bounded JSON data with unique keys and without NaN."""
    walk = PlainWalk(nodes)
    walk.chars = chars
    return walk.visit(value, _PLAIN_DEPTH)


def converted(value: Any) -> Any:
    """Convert a recorded, bounded value to JSON data without cutting its texts."""
    return _WholeTexts(_MAX_NODES).visit(value, _MAX_DEPTH)


def plain_dict(value: Any) -> dict[str, Any] | None:
    """Return a value as a JSON object; other data is put under `value`."""
    if value is None:
        return None
    data = plain(value)
    return data if isinstance(data, dict) else {"value": data}


def size(value: Any) -> int:
    """Return about as many bytes as the value's JSON form has; extrapolated for huge values.

    Escapes are not counted. An object without readable fields counts as its `nbytes` (arrays),
    else as 0.
    """
    return min(_Size(_SIZE_NODES).visit(value, _PLAIN_DEPTH), MAX_INTEGER)


class _FieldsWalk(Walk[Result]):
    """Walk that reads other objects through their fields."""

    def fields(self, value: Any, kind: type, most: int) -> Pairs | None:
        return _fields(value, kind, most)


class PlainWalk(_FieldsWalk[Any]):
    """Conversion to JSON data."""

    longest: int = TEXT_LIMIT
    """Maximum length of a text."""
    chars: int = sys.maxsize
    """Maximum length of all texts."""

    def text(self, value: str) -> Any:
        kept = shortened(value, max(min(self.longest, self.chars), 1))
        self.chars -= len(kept)
        return kept

    def scalar(self, value: Any, kind: type) -> Any:
        if value is None or kind is bool:
            return value
        if not issubclass(kind, Enum):
            if issubclass(kind, int):
                number = int.__int__(value)
                if -MAX_INTEGER <= number <= MAX_INTEGER:
                    return number
            elif issubclass(kind, float):
                return float.__float__(value) if math.isfinite(float.__float__(value)) else None
        return self.text(_scalar_text(value, kind))

    def mapping(self, _value: Any, pairs: Pairs, _length: int, depth: int) -> Any:
        data: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        for key, item in pairs:
            if self.nodes <= 0:
                break
            name = summary(key)
            if name in data:
                # 1 and "1" are different keys in Python but equal in JSON: the first keeps the
                # name.
                name = distinct(name, data, numbers)
            data[name] = self.visit(item, depth)
            if issubclass(type(item), str) and str.__len__(item) > self.longest:
                data.setdefault(f"{name}_truncated", about_cut(item))
        return data

    def sequence(self, _value: Any, items: Sequence[Any], _length: int, depth: int) -> Any:
        return [self.visit(item, depth) for item in items if self.nodes > 0]

    def record(self, value: Any, fields: Pairs, depth: int) -> Any:
        return self.mapping(value, fields, len(fields), depth)

    def opaque(self, value: Any) -> Any:
        return self.text(f"<{type_name(value)}>")

    def cut(self) -> Any:
        return ELLIPSIS

    def cycle(self) -> Any:
        return CYCLE


class _WholeTexts(PlainWalk):
    """Conversion without a limit of texts."""

    longest = sys.maxsize


class _Summary(_FieldsWalk[str]):
    """Summary of a value's structure in about `limit` characters."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._limit = self._left = limit

    def room(self) -> int:
        return self._left if self._left > 0 else 1

    def name(self, value: object) -> str:
        """Return the name of a field or argument."""
        return self._spend(str(value))

    def text(self, value: str) -> str:
        # Not at `_left`: the summary's limit must cut the text before its closing quote, so that
        # redaction recognises secrets that are cut off.
        shown = repr(str.__getitem__(value, slice(0, self._limit)))
        self._left -= len(shown)
        return shown

    def scalar(self, value: Any, kind: type) -> str:
        return self._spend(_scalar_text(value, kind))

    def mapping(self, _value: Any, pairs: Pairs, _length: int, depth: int) -> str:
        return self.joined("{", pairs, "}", depth, key=self._key)

    def sequence(self, value: Any, items: Sequence[Any], length: int, depth: int) -> str:
        kind = type(value)
        pairs = [(None, item) for item in items]
        if issubclass(kind, tuple):
            return self.joined("(", pairs, ",)" if length == 1 else ")", depth)
        if issubclass(kind, (set, frozenset)):
            return self.joined("{", pairs, "}", depth)
        return self.joined("[", pairs, "]", depth)

    def record(self, value: Any, fields: Pairs, depth: int) -> str:
        return self.joined(f"{type_name(value)}(", fields, ")", depth, key=self.name)

    def opaque(self, value: Any) -> str:
        return self._spend(f"<{type_name(value)}>")

    def cut(self) -> str:
        return ELLIPSIS

    def cycle(self) -> str:
        return self._spend(CYCLE)

    def joined(
        self,
        opening: str,
        pairs: Pairs,
        closing: str,
        depth: int,
        *,
        key: Callable[[Any], str] | None = None,
    ) -> str:
        """Return the parts of a container between brackets, as many as there is room for."""
        parts: list[str] = []
        self._left -= len(opening) + len(closing)
        for name, item in pairs:
            if self._left <= 0:
                parts.append(ELLIPSIS)
                break
            before = ""
            if parts:
                before = ", "
                self._left -= 2
            if key is not None:
                before = f"{before}{key(name)}: "
                self._left -= 2
            # Texts directly: most parts are texts.
            shown = self.text(item) if type(item) is str else self.visit(item, depth)
            parts.append(f"{before}{shown}")
        return f"{opening}{''.join(parts)}{closing}"

    def _key(self, key: object) -> str:
        return self.text(key) if type(key) is str else self.visit(key, 1)

    def _spend(self, shown: str) -> str:
        self._left -= len(shown)
        return shown


class _Size(_FieldsWalk[int]):
    """Length of the JSON form; extrapolated beyond the node budget."""

    def room(self) -> int:
        return max(self.nodes, 1)

    def text(self, value: str) -> int:
        return 2 + (str.__len__(value) if str.isascii(value) else _text_bytes(value))

    def scalar(self, value: Any, kind: type) -> int:
        return (
            _byte_length(value, kind) if issubclass(kind, BYTES) else len(_scalar_text(value, kind))
        )

    def mapping(self, _value: Any, pairs: Pairs, length: int, depth: int) -> int:
        seen = [self._of(key, 1) + self._of(item, depth) + 2 for key, item in pairs]
        return _enclosed(seen, length)

    def sequence(self, _value: Any, items: Sequence[Any], length: int, depth: int) -> int:
        return _enclosed([self._of(item, depth) + 1 for item in items], length)

    def _of(self, value: Any, depth: int) -> int:
        if type(value) is str and value.isascii():
            self.nodes -= 1
            return len(value) + 2
        return self.visit(value, depth)

    def record(self, value: Any, fields: Pairs, depth: int) -> int:
        return self.mapping(value, fields, len(fields), depth)

    def opaque(self, value: Any) -> int:
        # Only if reading it runs no Python code of the type.
        found = class_attribute(type(value), "nbytes")
        if type(found) not in (GetSetDescriptorType, MemberDescriptorType):
            return 0
        known = _attribute(value, "nbytes")
        return known if type(known) is int and known > 0 else 0

    def cut(self) -> int:
        return 1

    def cycle(self) -> int:
        return len(CYCLE) + 2


def _text_bytes(value: str) -> int:
    length = str.__len__(value)
    if length <= 3 * _SIZE_SAMPLE:
        return len(str.encode(value, "utf-8", "replace"))
    starts = (0, (length - _SIZE_SAMPLE) // 2, length - _SIZE_SAMPLE)
    sample = "".join(str.__getitem__(value, slice(at, at + _SIZE_SAMPLE)) for at in starts)
    return len(sample.encode("utf-8", "replace")) * length // len(sample)


def _enclosed(seen: Sequence[int], length: int) -> int:
    """Estimate the size of a container from its first parts with commas."""
    if not seen:
        return 2
    total = sum(seen)
    return 1 + (total if length <= len(seen) else total * length // len(seen))


def _scalar_text(value: Any, kind: type) -> str:
    """Return a scalar as short text, like `repr` where that is safe."""
    if value is None or kind is bool or kind is float:
        return repr(value)
    if issubclass(kind, Enum):
        return f"{kind.__name__}.{_attribute(value, '_name_')}"
    if issubclass(kind, int):
        bits = int.bit_length(value)
        return int.__repr__(value) if bits <= _MAX_INT_BITS else f"<int of {bits} bits>"
    if issubclass(kind, float):
        return float.__repr__(value)
    if issubclass(kind, BYTES):
        return f"<{_byte_length(value, kind)} bytes>"
    if issubclass(kind, type):
        return f"<class {type.__getattribute__(value, '__name__')}>"
    if issubclass(kind, CALLABLES):
        return f"<function {getattr(value, '__name__', '?')}>"
    if issubclass(kind, ModuleType):
        return f"<module {_attribute(value, '__name__')}>"
    try:
        return str(value)[:SUMMARY_LIMIT]
    except Exception as raised:  # noqa: BLE001 - a user-defined time zone may raise
        guard.pass_on(raised)
        return f"<{kind.__name__}>"


def _byte_length(value: Any, kind: type) -> int:
    """Return the length of binary data in bytes."""
    if issubclass(kind, memoryview):
        return int(value.nbytes)
    known = bytes if issubclass(kind, bytes) else bytearray
    return known.__len__(value)


def type_name(value: Any) -> str:
    """Return the name of a value's class."""
    return text(type.__getattribute__(type(value), "__name__"), SHORT_LIMIT)


def _fields(value: Any, kind: type, most: int) -> list[tuple[str, Any]] | None:
    """Return declared fields, else the public instance dictionary, else None."""
    for marker in _MARKERS:
        declared = _declared(kind, marker)
        if declared is not None:
            pairs = [(name, _attribute(value, name)) for name in declared[:most]]
            return [pair for pair in pairs if pair[1] is not _MISSING]
    own = _attribute(value, "__dict__")
    if type(own) is not dict:
        return None
    if issubclass(kind, BaseException):
        own = {"args": _attribute(value, "args"), **own}
    public = ((name, item) for name, item in take(own.items(), most) if type(name) is str)
    return [(name, item) for name, item in public if not name.startswith("_")]


def declares_fields(kind: type) -> bool:
    """Return whether a class declares its fields: a dataclass, msgspec, attrs or pydantic class."""
    if any(_declared(kind, marker) is not None for marker in _MARKERS):
        return True
    return any(class_attribute(kind, name) is not _MISSING for name in _PYDANTIC)


def _attribute(value: Any, name: str) -> Any:
    """Read an attribute with `object`'s lookup: slots and dictionaries, no `__getattr__`."""
    if isinstance(class_attribute(type(value), name), property):
        return _MISSING
    try:
        return object.__getattribute__(value, name)
    except Exception as raised:  # noqa: BLE001 - an unset slot, or a descriptor that raises
        guard.pass_on(raised)
        return _MISSING


def class_attribute(kind: type, name: str) -> Any:
    """Return a class attribute, possibly inherited, without running a descriptor."""
    for base in type.__getattribute__(kind, "__mro__"):
        found = type.__getattribute__(base, "__dict__").get(name, _MISSING)
        if found is not _MISSING:
            return found
    return _MISSING


def _declared(kind: type, marker: str) -> list[str] | None:
    try:
        # Through `type`: msgspec defines its list on the metaclass, the others on the class.
        fields = type.__getattribute__(kind, marker)
    except AttributeError:
        return None
    if type(fields) is not dict and not issubclass(type(fields), tuple):
        return None
    return [str(getattr(item, "name", item)) for item in fields]
