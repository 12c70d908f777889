"""Codecs for standard library types, dataclasses, named tuples and enums."""

import base64
import inspect
import re
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, EnumType, Flag
from fractions import Fraction
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from types import MemberDescriptorType, SimpleNamespace
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from tracereel.tape import classes
from tracereel.tape.codec import (
    Data,
    Decode,
    Encode,
    Opaque,
    UndecodableError,
    add,
    hashable,
    pairs,
)

_MAX_PATTERN: Final = 10_000
_FACTORIES: Final = {
    kind.__name__: kind for kind in (list, dict, set, int, float, str, bool, tuple)
}


def _type(kind: type, tag: str, encode: Encode, decode: Decode) -> None:
    """Add a codec for exactly this type."""
    add(tag, lambda given: given is kind, encode, decode)


def _simple(kind: type, tag: str, to: Any, back: Any) -> None:
    """Add a codec for a type that is converted without nested values."""
    _type(kind, tag, lambda v, _pack: {"v": to(v)}, lambda d, _unpack: back(d["v"]))


def _items(kind: type, *, ordered: bool = True) -> None:
    def encode(value: Any, pack: Any) -> dict[str, Data]:
        packed = [pack(item) for item in value]
        # The order of a set differs between processes.
        return {"v": packed if ordered else sorted(packed, key=_order)}

    def decode(data: dict[str, Data], unpack: Any) -> Any:
        items = [unpack(item) for item in data["v"]]
        return kind(items if kind is tuple else hashable(items))

    _type(kind, kind.__name__, encode, decode)


def _order(data: Data) -> str:
    return f"{type(data).__name__}{data}"


def _bytes(value: Any, _pack: Any) -> dict[str, Data]:
    try:
        text = bytes(value).decode()
    except UnicodeDecodeError:
        return {"b": base64.b64encode(value).decode()}
    return {"u": text}  # readable, and visible to redaction


def _from_bytes(data: dict[str, Data], _unpack: Any) -> bytes:
    return data["u"].encode() if "u" in data else base64.b64decode(data["b"])


_items(tuple)
_items(set, ordered=False)
_items(frozenset, ordered=False)
_type(bytes, "bytes", _bytes, _from_bytes)
_type(bytearray, "bytearray", _bytes, lambda d, unpack: bytearray(_from_bytes(d, unpack)))
_type(
    deque,
    "deque",
    lambda v, pack: {"v": [pack(item) for item in v], "n": v.maxlen},
    lambda d, unpack: deque((unpack(item) for item in d["v"]), d["n"]),
)
_simple(complex, "complex", lambda v: [repr(v.real), repr(v.imag)], lambda v: _complex(*v))
_simple(Decimal, "decimal", str, Decimal)
_simple(Fraction, "fraction", str, lambda v: _fraction(v))
_simple(UUID, "uuid", str, UUID)
_simple(range, "range", lambda v: [v.start, v.stop, v.step], lambda v: range(*v))
_simple(date, "date", date.isoformat, date.fromisoformat)
_simple(
    timedelta,
    "timedelta",
    lambda v: [v.days, v.seconds, v.microseconds],
    lambda v: timedelta(*v),
)
_simple(ZoneInfo, "zone", lambda v: v.key, ZoneInfo)
_simple(
    timezone,
    "timezone",
    lambda v: v.utcoffset(None).total_seconds(),
    lambda v: UTC if v == 0 else timezone(timedelta(seconds=v)),
)
_simple(type(...), "ellipsis", lambda _v: None, lambda _v: ...)
for _path in (PurePosixPath, PureWindowsPath, PurePath, Path, type(Path())):
    _simple(_path, f"path.{_path.__name__}", str, _path)


def _fraction(text: str) -> Fraction:
    # `Fraction(text)` also accepts exponents: `1e999999999` would exhaust memory.
    above, _, below = text.partition("/")
    return Fraction(int(above), int(below or 1))


def _complex(real: str, imag: str) -> complex:
    return complex(float(real), float(imag))


def _moment(value: Any, pack: Any) -> dict[str, Data]:
    found: dict[str, Data] = {"v": value.replace(tzinfo=None, fold=0).isoformat()}
    if value.tzinfo is not None:
        found["tz"] = pack(value.tzinfo)
    if value.fold:
        found["fold"] = 1
    return found


def _moment_of(kind: Any) -> Any:
    def back(data: dict[str, Data], unpack: Any) -> Any:
        zone = unpack(data["tz"]) if "tz" in data else None
        if zone is not None and not issubclass(type(zone), tzinfo):
            raise UndecodableError(f"a time zone is not {type(zone).__name__}")
        return kind.fromisoformat(data["v"]).replace(tzinfo=zone, fold=data.get("fold", 0))

    return back


_type(datetime, "datetime", _moment, _moment_of(datetime))
_type(time, "time", _moment, _moment_of(time))
_type(
    re.Pattern,
    "pattern",
    lambda v, pack: {"v": pack(v.pattern), "f": v.flags & ~re.UNICODE.value},
    lambda d, unpack: _pattern(unpack(d["v"]), d["f"]),
)


def _pattern(text: Any, flags: int) -> Any:
    if type(text) not in (str, bytes):
        raise UndecodableError(f"a pattern is text or bytes, not {type(text).__name__}")
    if len(text) > _MAX_PATTERN:
        raise UndecodableError(f"a pattern of {len(text)} characters; the limit is {_MAX_PATTERN}")
    return re.compile(text, flags)


def _pairs(value: Any, pack: Any) -> list[Data]:
    return [[pack(key), pack(item)] for key, item in value.items()]


def _from_pairs(data: dict[str, Data], unpack: Any) -> dict[Any, Any]:
    return pairs(data["v"], unpack)


for _kind in (OrderedDict, Counter):
    _type(
        _kind,
        _kind.__name__,
        lambda v, pack: {"v": _pairs(v, pack)},
        lambda d, unpack, kind=_kind: kind(_from_pairs(d, unpack)),  # type: ignore[misc]
    )
_type(
    defaultdict,
    "defaultdict",
    lambda v, pack: {"v": _pairs(v, pack), "f": getattr(v.default_factory, "__name__", None)},
    lambda d, unpack: defaultdict(_FACTORIES.get(d["f"]), _from_pairs(d, unpack)),
)


add(
    "enum",
    lambda given: issubclass(given, Enum),
    lambda v, pack: {"c": classes.path_of(type(v)), "n": v.name, "v": pack(v.value)},
    lambda d, unpack: _enum(d, unpack),
)


def _enum(data: dict[str, Data], unpack: Any) -> Any:
    kind: Any = classes.resolve(data["c"], Enum)
    value = unpack(data["v"])
    if kind is None:
        return value
    found = classes.dict_of(kind)["_member_map_"].get(data["n"])
    if found is not None:
        return found
    # A class may define `_missing_`; that code must not run.
    if type(kind) is EnumType and classes.defines(kind, "_missing_") in (Enum, Flag):
        if type(value) in (int, str):
            return kind(value)
        return value
    if type(value) not in (int, str, float):
        return value  # comparing other values may run code of the program
    for each in classes.dict_of(kind)["_member_map_"].values():
        own = object.__getattribute__(each, "_value_")
        if type(own) is type(value) and own == value:
            return each
    return value


def _dataclass(data: dict[str, Data], unpack: Any) -> Any:
    kind = classes.resolve(data["c"])
    values = {name: unpack(item) for name, item in data["v"].items()}
    if kind is None or not is_dataclass(kind):
        return TypeRecord(data["c"], values)
    made = object.__new__(kind)
    known = {each.name for each in fields(kind)}
    for name, value in values.items():
        slot = inspect.getattr_static(kind, name, None)
        if name in known and type(slot) is MemberDescriptorType:
            slot.__set__(made, value)
        elif name in known:
            # Bypass `__setattr__` and property setters of that name.
            object.__getattribute__(made, "__dict__")[name] = value
    return made


class TypeRecord:
    """Placeholder for an object whose class is not loaded, with its fields as attributes."""

    def __init__(self, path: str, values: dict[str, Any]) -> None:
        self.__dict__.update(values)
        self.__dict__["__class_path__"] = path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeRecord) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if k != "__class_path__")
        return f"<{self.__dict__['__class_path__']} {shown}>"


def _fields(value: Any, pack: Any) -> dict[str, Data]:
    kind = type(value)
    found = {
        each.name: pack(object.__getattribute__(value, each.name))
        for each in fields(kind)
        if _has(value, each.name)
    }
    return {"c": classes.path_of(kind), "v": found}


def _has(value: Any, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


def _is_namedtuple(given: type) -> bool:
    return issubclass(given, tuple) and isinstance(getattr(given, "_fields", None), tuple)


def _namedtuple(data: dict[str, Data], unpack: Any) -> Any:
    kind: Any = classes.resolve(data["c"], tuple)
    items = [unpack(item) for item in data["v"]]
    if kind is None or not _is_namedtuple(kind):
        return tuple(items)
    return tuple.__new__(kind, items)


add(
    "namedtuple",
    _is_namedtuple,
    lambda v, pack: {"c": classes.path_of(type(v)), "v": [pack(item) for item in v]},
    _namedtuple,
)
add("dataclass", is_dataclass, _fields, _dataclass)
_type(
    SimpleNamespace,
    "namespace",
    lambda v, pack: {"v": pack(dict(vars(v)))},
    lambda d, unpack: _namespace(unpack(d["v"])),
)


def _namespace(fields: Any) -> SimpleNamespace:
    if type(fields) is not dict:
        raise UndecodableError(f"the fields of a namespace are not {type(fields).__name__}")
    return SimpleNamespace(**fields)


def _record(value: Any, pack: Any) -> dict[str, Data]:
    values = dict(vars(value))
    path = values.pop("__class_path__")
    return {"c": path, "v": {name: pack(item) for name, item in values.items()}}


_type(TypeRecord, "record", _record, _dataclass)
# `Opaque` is a dataclass too, and the first codec that accepts a type is used.
add(
    "opaque",
    lambda given: given is Opaque,
    lambda v, _pack: {"type": v.type, "reason": v.reason},
    lambda d, _unpack: Opaque(d["type"], d.get("reason", "")),
    first=True,
)


def _subclass(base: type) -> None:
    """Add a codec for subclasses of a plain type; without its class a value is decoded as plain."""

    def back(data: dict[str, Data], unpack: Any) -> Any:
        kind: Any = classes.resolve(data["c"], base)
        value = unpack(data["v"])
        # Other values have a `__str__` or `__float__` of their own.
        plain = type(value) in (str, int, float)
        return base.__new__(kind, value) if plain and kind is not None else value

    add(
        f"sub.{base.__name__}",
        lambda given: issubclass(given, base),
        lambda v, pack: {"c": classes.path_of(type(v)), "v": pack(base(v))},
        back,
    )


for _base in (str, int, float):
    _subclass(_base)
