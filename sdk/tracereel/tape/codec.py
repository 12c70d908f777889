"""Codec between Python values and type-tagged JSON data.

Plain data stays plain. Everything else becomes an object `{"$": tag, …}`, made by the first codec
that accepts the type. Nothing is pickled, and no `__init__`, validator or property of the program
runs. A class is rebuilt only if it is loaded or declared, and of the kind that the tag names.

A value that no codec accepts becomes `opaque`: its type is kept, its content is not, and
`EncodedValue.problems` names it. It is decoded as `Opaque`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tracereel.tape import classes

TAG: Final = "$"
STATE: Final = "state"
"""Field of an opaque object with its attributes."""
MAX_DEPTH: Final = 64
MAX_NODES: Final = 200_000
MAX_PROBLEMS: Final = 20
MAX_ALIKE: Final = 1_000
"""Keys of one object that may have the hash of another."""
_NODE_BYTES: Final = 8
_MAX_BITS: Final = 14_000
"""Bits of the longest integers written in decimal; Python refuses to parse much longer ones."""

Data = Any
"""JSON data."""
Pack = Callable[[Any], Data]
Encode = Callable[[Any, Pack], dict[str, Data]]
"""Function that returns the fields of a tagged object; `Pack` encodes nested values."""
Decode = Callable[[dict[str, Data], Callable[[Data], Any]], Any]


class UndecodableError(ValueError):
    """Data that no codec of this process can decode."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """Placeholder for a value whose content was not recorded."""

    type: str
    reason: str = ""

    def __getattr__(self, name: str) -> Any:
        # In a replay the program gets this object in place of its own, so the error explains it.
        if name in ("type", "reason"):
            raise AttributeError(name)
        raise AttributeError(
            f"there is no {name!r}: this stands for {self.type}, whose content is not on the tape"
            f" ({self.reason}); tracereel.tape.register teaches a type"
        )


@dataclass(frozen=True, slots=True)
class Codec:
    """Encoder and decoder for the values of one type."""

    tag: str
    takes: Callable[[type], bool]
    encode: Encode
    decode: Decode


@dataclass(frozen=True, slots=True)
class EncodedValue:
    """Encoded value, and the problems found while encoding it."""

    data: Data
    problems: tuple[str, ...] = ()
    size: int = 0
    """Approximate length of its JSON text in bytes."""
    unread: tuple[str, ...] = ()
    """Problems of the values that can be compared by their type only."""


_codecs: Final[list[Codec]] = []
_by_tag: Final[dict[str, Codec]] = {}
_by_type: Final[dict[type, Codec | None]] = {}
_MAX_TYPES: Final = 4096


def register(
    kind: type,
    *,
    encode: Callable[[Any], Any],
    decode: Callable[[Any], Any],
    tag: str | None = None,
) -> None:
    """Register a codec for a type.

    `encode(value)` returns a value that the codec supports, and `decode` converts it back.

    Example:
        register(Money, encode=lambda money: (money.amount, money.currency), decode=lambda v: Money(*v))
    """
    add(
        tag or classes.path_of(kind),
        lambda given: given is kind,
        lambda value, pack: {"v": pack(encode(value))},
        lambda data, unpack: decode(unpack(data["v"])),
        first=True,
    )


def add(
    tag: str, takes: Callable[[type], bool], encode: Encode, decode: Decode, *, first: bool = False
) -> None:
    """Add a codec for the types that `takes` accepts; the first one that accepts a type is used."""
    codec = _by_tag[tag] = Codec(tag, takes, encode, decode)
    _codecs.insert(0 if first else len(_codecs), codec)
    _by_type.clear()


def encode(value: Any, *, represent: bool = False) -> EncodedValue:
    """Encode a value; never raises because of the value.

    Args:
        represent: whether to keep the attributes of opaque objects of the program, for comparison.
    """
    walk = _Encoder(represent=represent)
    data = walk.pack(value)
    return EncodedValue(data, tuple(walk.problems), walk.size, tuple(walk.unread))


def decode(data: Data) -> Any:
    """Decode data into a new value.

    Raises:
        UndecodableError: the data was not made by `encode`.
    """
    try:
        return _unpack(data)
    except UndecodableError:
        raise
    except RecursionError as error:
        raise UndecodableError("data is nested too deeply") from error
    except Exception as error:
        raise UndecodableError(f"cannot be decoded: {type(error).__name__}: {error}") from error


class _Encoder:
    def __init__(self, *, represent: bool = False) -> None:
        self.problems: list[str] = []
        self.unread: list[str] = []
        self.size = 0
        self._represent = represent
        self._around: set[int] = set()
        self._nodes = 0

    def pack(self, value: Any) -> Data:
        kind = type(value)
        self.size += _NODE_BYTES
        if value is None or kind is bool:
            return value
        if kind is str:
            self.size += len(value)
            return value if value.isascii() else _text(value)
        if kind is int:
            return value if value.bit_length() <= _MAX_BITS else {TAG: "int", "v": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {TAG: "float", "v": repr(value)}
        self._nodes += 1
        identity = id(value)
        if identity in self._around:
            return self._opaque(kind, "refers to itself")
        if len(self._around) >= MAX_DEPTH:
            return self._opaque(kind, f"is nested more than {MAX_DEPTH} levels deep")
        if self._nodes > MAX_NODES:
            return self._opaque(kind, f"has more than {MAX_NODES} parts")
        self._around.add(identity)
        try:
            return self._container(kind, value)
        except RecursionError:
            return self._opaque(kind, "is nested too deeply")
        except Exception as error:  # noqa: BLE001 - a value that raises becomes opaque
            return self._opaque(kind, f"could not be read ({type(error).__name__})")
        finally:
            self._around.discard(identity)

    def _container(self, kind: type, value: Any) -> Data:
        pack = self.pack
        if kind is list:
            return [pack(item) for item in value]
        if kind is dict:
            if all(type(key) is str and _is_key(key) for key in value):
                self.size += sum(map(len, value))
                return {key: pack(item) for key, item in value.items()}
            return {TAG: "map", "v": [[pack(key), pack(item)] for key, item in value.items()]}
        codec = codec_of(kind)
        if codec is None:
            held = classes.attributes_of(value) if self._represent else None
            state = None if held is None else {name: pack(item) for name, item in held.items()}
            return self._opaque(kind, "is of a type that is not known", state)
        fields = codec.encode(value, pack)
        self.size += sum(len(each) for each in fields.values() if type(each) is str)
        return {TAG: codec.tag, **fields}

    def _opaque(self, kind: type, reason: str, state: dict[str, Data] | None = None) -> Data:
        name = classes.path_of(kind)
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{name} {reason}")
            if state is None:
                self.unread.append(f"{name} {reason}")
        found = {TAG: "opaque", "type": name, "reason": reason}
        return found if state is None else {**found, STATE: state}


def codec_of(kind: type) -> Codec | None:
    """Return the codec for a type, or `None`."""
    try:
        return _by_type[kind]
    except KeyError:
        if len(_by_type) >= _MAX_TYPES:
            _by_type.clear()
        found = next((codec for codec in _codecs if codec.takes(kind)), None)
        _by_type[kind] = found
        return found
    except TypeError:  # the metaclass makes the class unhashable
        return None


def _unpack(data: Data) -> Any:
    kind = type(data)
    if kind is list:
        return [_unpack(item) for item in data]
    if kind is not dict:
        return data
    tag = data.get(TAG)
    if tag is None:
        return {key: _unpack(item) for key, item in data.items()}
    if tag == "map":
        return pairs(data["v"], _unpack)
    if tag == "int":
        return int(data["v"], 16)
    if tag == "float":
        return float(data["v"])
    if tag == "text":
        return bytes.fromhex(data["v"]).decode("utf-8", "surrogatepass")
    codec = _by_tag.get(tag)
    if codec is None:
        return Opaque(str(data.get("type", tag)), str(data.get("reason", "")))
    return codec.decode(data, _unpack)


def pairs(data: Data, unpack: Callable[[Data], Any]) -> dict[Any, Any]:
    """Decode pairs of keys and values."""
    found = [(unpack(key), unpack(item)) for key, item in data]
    hashable([key for key, _ in found])
    return dict(found)


def hashable(items: list[Any]) -> list[Any]:
    """Return decoded items, unless so many have the same hash that a set of them is slow.

    Raises:
        UndecodableError: they have.
    """
    alike = len(items) - len(set(map(hash, items))) if len(items) > MAX_ALIKE else 0
    if alike > MAX_ALIKE:
        raise UndecodableError(f"{alike} keys share their hash with others; at most {MAX_ALIKE} do")
    return items


def _is_key(key: str) -> bool:
    return not key.startswith(TAG) and (key.isascii() or type(_text(key)) is str)


def _text(value: str) -> Data:
    """Encode a string; lone surrogates cannot be written as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return {TAG: "text", "v": value.encode("utf-8", "surrogatepass").hex()}
    return value
