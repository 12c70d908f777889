"""Values as type-tagged JSON data and back: what agents pass to models and tools, and get from them.

Plain data stays plain. Everything else is an object `{"$": tag, …}`, made by the first codec that takes
the value. Nothing is pickled, no `__init__`, validator or property of the program's runs, and a class is
only rebuilt if it is loaded already, or declared, and of the kind that the tag says.

What no codec takes becomes `opaque`: its type is kept, its content is not, and `Encoded.problems`
says so. Decoding gives an `Opaque` for it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tracereel.tape import classes

TAG: Final = "$"
MAX_DEPTH: Final = 64
MAX_NODES: Final = 200_000
MAX_PROBLEMS: Final = 20
_MAX_BITS: Final = 14_000
"""Of integers that are written in decimal; Python refuses to read much longer ones."""

Data = Any
"""What JSON can hold."""
Pack = Callable[[Any], Data]
Encode = Callable[[Any, Pack], dict[str, Data]]
"""Makes the fields of a tagged object of a value; `Pack` encodes what is in it."""
Decode = Callable[[dict[str, Data], Callable[[Data], Any]], Any]


class UndecodableError(ValueError):
    """Data that no codec of this process can make a value of."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """Stands for a value whose content was not recorded."""

    type: str
    reason: str = ""

    def __getattr__(self, name: str) -> Any:
        # The program gets this where it looks for its own object, in a replay.
        if name in ("type", "reason"):
            raise AttributeError(name)
        raise AttributeError(
            f"there is no {name!r}: this stands for {self.type}, whose content is not on the tape"
            f" ({self.reason}); tracereel.tape.register teaches a type"
        )


@dataclass(frozen=True, slots=True)
class Codec:
    """How values of one type travel."""

    tag: str
    takes: Callable[[type], bool]
    encode: Encode
    decode: Decode


@dataclass(frozen=True, slots=True)
class Encoded:
    """The data of a value, and what of it could not be kept."""

    data: Data
    problems: tuple[str, ...] = ()
    texts: list[str] | None = None
    """Of plain data, every text in it; null where more than texts, numbers and keys is in it."""
    keys: list[str] | None = None


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
    """Teach the codec a type: `encode(value)` gives something it knows, `decode` makes it a value again.

    Example:
        register(Money, encode=lambda money: (money.amount, money.currency), decode=lambda v: Money(*v))
    """
    name = tag or classes.path_of(kind)
    add(
        Codec(
            name,
            lambda given: given is kind,
            lambda value, pack: {"v": pack(encode(value))},
            lambda data, unpack: decode(unpack(data["v"])),
        ),
        first=True,
    )


def add(codec: Codec, *, first: bool = False) -> None:
    """Add a codec; the first that takes a type is used."""
    if first:
        _codecs.insert(0, codec)
    else:
        _codecs.append(codec)
    _by_tag[codec.tag] = codec
    _by_type.clear()


def encode(value: Any) -> Encoded:
    """A value as data; never raises for the value's sake."""
    walk = _Encoder()
    data = walk.pack(value)
    return Encoded(data, tuple(walk.problems), walk.texts if walk.plain else None, walk.keys)


def decode(data: Data) -> Any:
    """The value of such data, made anew on every call.

    Raises:
        UndecodableError: it is not data that `encode` makes.
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
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.texts: list[str] = []
        self.keys: list[str] = []
        self.plain = True
        self._around: set[int] = set()
        self._nodes = 0

    def pack(self, value: Any) -> Data:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            if not value.isascii() and type(_text(value)) is dict:
                self.plain = False
                return _text(value)
            self.texts.append(value)
            return value
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
        except Exception as error:  # noqa: BLE001 - whatever the value does: it is described, not kept
            return self._opaque(kind, f"could not be read ({type(error).__name__})")
        finally:
            self._around.discard(identity)

    def _container(self, kind: type, value: Any) -> Data:
        pack = self.pack
        if kind is list:
            return [pack(item) for item in value]
        if kind is dict:
            if all(type(key) is str and _is_key(key) for key in value):
                self.keys.extend(value)
                return {key: pack(item) for key, item in value.items()}
            self.plain = False
            return {TAG: "map", "v": [[pack(key), pack(item)] for key, item in value.items()]}
        self.plain = False
        codec = codec_of(kind)
        if codec is None:
            return self._opaque(kind, "is of a type that is not known")
        return {TAG: codec.tag, **codec.encode(value, pack)}

    def _opaque(self, kind: type, reason: str) -> Data:
        self.plain = False
        name = classes.path_of(kind)
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"{name} {reason}")
        return {TAG: "opaque", "type": name, "reason": reason}


def codec_of(kind: type) -> Codec | None:
    """The codec for values of a type."""
    try:
        return _by_type[kind]
    except KeyError:
        if len(_by_type) >= _MAX_TYPES:
            _by_type.clear()
        found = next((codec for codec in _codecs if codec.takes(kind)), None)
        _by_type[kind] = found
        return found
    except TypeError:  # a class whose metaclass makes it unhashable
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
        return {_unpack(key): _unpack(item) for key, item in data["v"]}
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


def _is_key(key: str) -> bool:
    return not key.startswith(TAG) and (key.isascii() or type(_text(key)) is str)


def _text(value: str) -> Data:
    """A text as JSON can hold it: lone surrogates cannot be written as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return {TAG: "text", "v": value.encode("utf-8", "surrogatepass").hex()}
    return value
