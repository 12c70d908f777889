"""Payloads of a tape: redacted JSON texts, deduplicated by hash.

A short text is stored inline (`=text`), a longer one as a blob (`#hash`). The longer parts of a
long list or object are blobs too, and lists refer to earlier ones (module `spliced_lists`), so a
conversation that grows with every call is stored once.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tracereel._redact.event_redaction import Privacy
from tracereel.tape import codec, codec_objects, codec_types
from tracereel.tape.spliced_lists import SPLICED, SplicedLists, cut, length

__all__ = ["Packed", "Payloads", "finish", "hash_of", "pack", "read", "text_of"]

INLINE: Final = 256
"""Longest inline text, in characters."""
PART: Final = 512
"""Smallest part that is stored separately; values longer than four of these are split."""
BLOB_CHUNK: Final = 256 * 1024
MAX_TEXT: Final = 16 * 1024 * 1024
"""Longest value that is stored."""
UNHASHED: Final = frozenset({"trace_id", "request_id", "parent_trace_id"})
"""Arguments that identify a run, and so differ between runs."""

_REF: Final = "ref"
_SPLIT_DEPTH: Final = 3
_encoder: Final = msgspec.json.Encoder()
_sorted: Final = msgspec.json.Encoder(order="sorted")

assert codec_types.TypeRecord is not None  # noqa: S101 - imported to register codecs
assert codec_objects is not None  # noqa: S101


@dataclass(frozen=True, slots=True)
class Packed:
    """Redacted value, ready to be stored."""

    data: Any
    problems: tuple[str, ...]
    redacted: bool
    unread: tuple[str, ...] = ()
    """Problems of the values that can be compared by their type only."""


def pack(value: Any, privacy: Privacy | None, *, represent: bool = False) -> Packed:
    """Return a value as redacted data, with the attributes of opaque objects if asked for."""
    return _redacted(codec.encode(value, represent=represent), privacy)


def _redacted(encoded: codec.EncodedValue, privacy: Privacy | None) -> Packed:
    if privacy is None:
        return Packed(encoded.data, encoded.problems, redacted=False, unread=encoded.unread)
    data, redacted = privacy.payload(encoded.data)
    return Packed(data, encoded.problems, redacted, encoded.unread)


def finish(encoded: codec.EncodedValue, privacy: Privacy | None) -> tuple[bytes, Packed]:
    """Return an encoded value as redacted JSON text, and its data."""
    packed = _redacted(encoded, privacy)
    return _encoder.encode(packed.data), packed


def hash_of(arguments: Mapping[str, Any]) -> str:
    """Return the hash that identifies arguments; key order and run ids are ignored."""
    if not UNHASHED.isdisjoint(arguments):
        arguments = {key: data for key, data in arguments.items() if key not in UNHASHED}
    return _digest(_sorted.encode(arguments))


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same; 1, 1.0 and true are different."""
    return _sorted.encode(one) == _sorted.encode(other)


def text_of(data: Any) -> str:
    """Return data as JSON text."""
    return _encoder.encode(data).decode()


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=12).hexdigest()


class Payloads:
    """Stores each text once; `write` receives the records of new blobs."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self._known: set[str] = set()
        self._lists = SplicedLists()

    def put(self, data: Any) -> str | None:
        """Store data and return its reference, or `None` if it is too long."""
        return self.put_text(_encoder.encode(data))

    def put_text(self, text: bytes) -> str | None:
        """Store a JSON text and return its reference, or `None` if it is too long."""
        if len(text) <= INLINE:
            return "=" + text.decode()
        if len(text) > MAX_TEXT:
            return None
        return "#" + self._stored(text, _SPLIT_DEPTH)

    def _stored(self, text: bytes, depth: int) -> str:
        """Store a text, a long list or object in parts, and return its name."""
        if depth < 0 or len(text) <= 4 * PART or text[:1] not in (b"[", b"{"):
            return self._blob(text)
        if text[:1] == b"{":
            fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            parts = {key: self._part(item, depth) for key, item in fields.items()}
            return self._blob(_encoder.encode(parts))
        items = msgspec.json.decode(text, type=list[msgspec.Raw])
        return self._lists.store(
            [self._part(item, depth) for item in items],
            lambda data: self._blob(_encoder.encode(data)),
        )

    def _part(self, item: msgspec.Raw, depth: int) -> msgspec.Raw:
        text = bytes(item)
        if len(text) < PART or text[:1] not in (b'"', b"[", b"{"):
            return item
        return msgspec.Raw(_encoder.encode({codec.TAG: _REF, "h": self._stored(text, depth - 1)}))

    def _blob(self, text: bytes) -> str:
        name = _digest(text)
        if name not in self._known:
            self._known.add(name)
            whole = text.decode()
            parts = range(0, len(whole), BLOB_CHUNK)
            for number, start in enumerate(parts):
                record: dict[str, Any] = {"r": "blob", "h": name}
                record["v"] = whole[start : start + BLOB_CHUNK]
                if len(parts) > 1:
                    record["i"], record["of"] = number, len(parts)
                self._write(record)
        return name


class MissingPayloadError(ValueError):
    """A value is missing from the tape or cannot be read."""


def read(reference: str | None, blobs: Mapping[str, str]) -> Any:
    """Return the data of a reference."""
    if reference is None:
        raise MissingPayloadError("the value was too long to be kept")
    try:
        if reference.startswith("="):
            return msgspec.json.decode(reference[1:])
        return _Joiner(blobs).blob(reference[1:])
    except RecursionError as error:
        raise MissingPayloadError("the value is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise MissingPayloadError(f"the value cannot be read: {error}") from error


class _Joiner:
    """Assembles a value from its blobs.

    Blobs may refer to each other. The limits keep a few of them from expanding to fill the memory:
    a reference counts as at least the shortest part that is stored separately.
    """

    def __init__(self, blobs: Mapping[str, str]) -> None:
        self._blobs = blobs
        self._left = 2 * MAX_TEXT
        self._around: list[str] = []

    def blob(self, name: object) -> Any:
        text = self._text(name)
        if name in self._around:
            raise MissingPayloadError(f"the payload {name} refers to itself")
        if len(self._around) > 2 * _SPLIT_DEPTH:
            raise MissingPayloadError("the value refers to other values too deeply")
        self._around.append(str(name))
        joined = self._joined(msgspec.json.decode(text))
        self._around.pop()
        return joined

    def _text(self, name: object) -> str:
        text = self._blobs.get(name) if isinstance(name, str) else None
        if text is None:
            raise MissingPayloadError(f"the payload {name} is not on the tape")
        self._left -= max(len(text), PART)
        if self._left < 0:
            raise MissingPayloadError(f"the value is longer than {MAX_TEXT} bytes")
        return text

    def _joined(self, data: Any) -> Any:
        if type(data) is list:
            return [self._joined(item) for item in data]
        if type(data) is not dict:
            return data
        if data.get(codec.TAG) == _REF:
            return self.blob(data.get("h"))
        if data.get(codec.TAG) == SPLICED:
            return self._items(_pieces_in(data))
        return {key: self._joined(item) for key, item in data.items()}

    def _items(self, pieces: list[Any]) -> list[Any]:
        """Return the items of pieces; their chain may be longer than the stack."""
        found: list[Any] = []
        waiting = cut(pieces, 0, sum(map(length, pieces)))[::-1]
        while waiting:
            piece = waiting.pop()
            if type(piece) is list:
                found += map(self._joined, piece)
            else:
                earlier = msgspec.json.decode(self._text(piece.get("h")))
                inner = [earlier] if type(earlier) is list else _pieces_in(earlier)
                waiting += cut(inner, piece["from"], piece["to"])[::-1]
        return found


def _pieces_in(data: Any) -> list[Any]:
    if type(data) is dict and data.get(codec.TAG) == SPLICED and type(data.get("v")) is list:
        pieces: list[Any] = data["v"]
        return pieces
    raise MissingPayloadError("a list continues a value that is no list")


def blobs_of(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the blobs among records; incomplete ones, and those of another hash, are left out."""
    pieces: dict[str, dict[int, str]] = {}
    wanted: dict[str, int] = {}
    for record in records:
        if record.get("r") == "blob":
            name = record["h"]
            pieces.setdefault(name, {})[record.get("i", 0)] = record["v"]
            wanted[name] = record.get("of", 1)
    whole = {
        name: "".join(found[number] for number in sorted(found))
        for name, found in pieces.items()
        if len(found) == wanted[name]
    }
    return {
        name: text
        for name, text in whole.items()
        if _digest(text.encode("utf-8", "surrogatepass")) == name
    }
