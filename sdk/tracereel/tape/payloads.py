"""Payloads of a tape: values as redacted JSON text, addressed by its hash, so that none is kept twice.

A short text stands where it is used (`=text`), a longer one is a blob of its own (`#hash`). Of a long
list or object the longer parts are blobs too: a conversation that grows by a message with every call
is kept once.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tracereel._privacy import Privacy
from tracereel.tape import codec, codec_objects, codec_types
from tracereel.tape.plain import is_plain

__all__ = ["Packed", "Payloads", "Taken", "finish", "hash_of", "pack", "read", "take", "text_of"]

INLINE: Final = 256
"""Longest text, in characters, that stands where it is used."""
PART: Final = 512
"""A list or object longer than four of these is kept in parts, each of at least one."""
BLOB_CHUNK: Final = 256 * 1024
MAX_TEXT: Final = 16 * 1024 * 1024
"""A longer value is not kept."""
UNHASHED: Final = frozenset({"trace_id", "request_id", "parent_trace_id"})
"""Arguments that name a run: another run has others."""

_REF: Final = "ref"
_SPLIT_DEPTH: Final = 3
_encoder: Final = msgspec.json.Encoder()
_sorted: Final = msgspec.json.Encoder(order="sorted")

assert codec_types.Record is not None  # noqa: S101 - imported for the codecs that they add
assert codec_objects is not None  # noqa: S101


@dataclass(frozen=True, slots=True)
class Packed:
    """A value that is ready to be kept."""

    data: Any
    problems: tuple[str, ...]
    redacted: bool


def pack(value: Any, privacy: Privacy | None) -> Packed:
    """A value as redacted data."""
    return _redacted(codec.encode(value), privacy)


def _redacted(encoded: codec.Encoded, privacy: Privacy | None) -> Packed:
    if privacy is None:
        return Packed(encoded.data, encoded.problems, redacted=False)
    if encoded.texts is not None and privacy.finds_nothing(encoded.texts, encoded.keys or []):
        return Packed(encoded.data, encoded.problems, redacted=False)
    data, redacted = privacy.payload(encoded.data)
    return Packed(data, encoded.problems, redacted)


Taken = bytes | codec.Encoded
"""What a value was at a moment: the JSON text of plain data, or what the codec made of it."""


def take(value: Any) -> Taken:
    """A value as it is now, not looked at for secrets yet; for `finish`, before it goes anywhere."""
    try:
        if is_plain(value):
            return _encoder.encode(value)
    except Exception:  # noqa: BLE001 - whatever it is, the codec describes it
        pass
    return codec.encode(value)


def finish(taken: Taken, privacy: Privacy | None) -> tuple[bytes, Packed | None]:
    """The redacted text of what was taken, and, where there is more to say of it, the data."""
    if isinstance(taken, bytes):
        if privacy is None or not privacy.suspects(taken):
            return taken, None
        data, redacted = privacy.payload(msgspec.json.decode(taken))
        return _encoder.encode(data), Packed(data, (), redacted)
    packed = _redacted(taken, privacy)
    return _encoder.encode(packed.data), packed


def hash_of(arguments: Mapping[str, Any]) -> str:
    """The hash that arguments are recognised by: the order of keys and the ids of a run do not count."""
    if not UNHASHED.isdisjoint(arguments):
        arguments = {key: data for key, data in arguments.items() if key not in UNHASHED}
    return _digest(_sorted.encode(arguments))


def same(one: Any, other: Any) -> bool:
    """Whether two pieces of data are the same; 1, 1.0 and true are not, whatever Python says."""
    return _sorted.encode(one) == _sorted.encode(other)


def text_of(data: Any) -> str:
    """Data as JSON text."""
    return _encoder.encode(data).decode()


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=12).hexdigest()


class Payloads:
    """Keeps each text once; `write` gets the records of new blobs."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self._known: set[str] = set()

    def put(self, data: Any) -> str | None:
        """The reference of some data; null if it is too long to be kept."""
        return self.put_text(_encoder.encode(data))

    def put_text(self, text: bytes) -> str | None:
        """The reference of some data whose JSON text is this; null if it is too long to be kept."""
        if len(text) <= INLINE:
            return "=" + text.decode()
        if len(text) > MAX_TEXT:
            return None
        if len(text) > 4 * PART and text[:1] in (b"[", b"{"):
            text = _encoder.encode(self._split(msgspec.json.decode(text), _SPLIT_DEPTH))
        return "#" + self._blob(text)

    def _split(self, data: Any, depth: int) -> Any:
        if type(data) is list:
            return [self._part(item, depth) for item in data]
        return {key: self._part(item, depth) for key, item in data.items()}

    def _part(self, data: Any, depth: int) -> Any:
        kind = type(data)
        if (kind is str and len(data) < PART) or kind not in (str, list, dict):
            return data
        text = _encoder.encode(data)
        if len(text) < PART:
            return data
        if kind is not str and depth > 0 and len(text) > 4 * PART:
            text = _encoder.encode(self._split(data, depth - 1))
        return {codec.TAG: _REF, "h": self._blob(text)}

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
    """A part of the tape that holds a value is not there."""


def read(reference: str | None, blobs: Mapping[str, str]) -> Any:
    """The data behind a reference.

    Raises:
        MissingPayloadError: it is not on the tape.
    """
    if reference is None:
        raise MissingPayloadError("the value was too long to be kept")
    if reference.startswith("="):
        return msgspec.json.decode(reference[1:])
    return _joined(_blob(reference[1:], blobs), blobs)


def _blob(name: str, blobs: Mapping[str, str]) -> Any:
    text = blobs.get(name)
    if text is None:
        raise MissingPayloadError(f"the payload {name} is not on the tape")
    return msgspec.json.decode(text)


def _joined(data: Any, blobs: Mapping[str, str]) -> Any:
    if type(data) is list:
        return [_joined(item, blobs) for item in data]
    if type(data) is not dict:
        return data
    if data.get(codec.TAG) == _REF:
        return _joined(_blob(data["h"], blobs), blobs)
    return {key: _joined(item, blobs) for key, item in data.items()}


def blobs_of(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The blobs among records, those in several pieces put together; without a piece it is not there."""
    pieces: dict[str, dict[int, str]] = {}
    wanted: dict[str, int] = {}
    for record in records:
        if record.get("r") == "blob":
            name = record["h"]
            pieces.setdefault(name, {})[record.get("i", 0)] = record["v"]
            wanted[name] = record.get("of", 1)
    return {
        name: "".join(found[number] for number in sorted(found))
        for name, found in pieces.items()
        if len(found) == wanted[name]
    }
