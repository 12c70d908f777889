"""Copies of inputs and outputs: whole up to the limits, beyond them without their middle.

A mark replaces removed content: `…[12 characters removed]…` in a text, a message of the
role `tracereel` in a list of messages, a text in other lists and objects.
"""

import sys
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from tracereel import semconv
from tracereel._redact import values
from tracereel._redact.event_redaction import Privacy
from tracereel._redact.plain_data import Pairs, take
from tracereel._redact.text_limits import (
    Cut,
    about_cut,
    clean,
    distinct,
    joined_ends,
    without_middle,
)
from tracereel._redact.values import Line, PlainWalk

MAX_VALUES: Final = 50_000
"""Maximum number of values (texts, numbers, objects …) in a field."""
MAX_DEPTH: Final = 32
CUT_ROLE: Final = "tracereel"
"""Role of the message in place of removed ones."""
CONTEXTS: Final = frozenset({"context", "ctx"})
"""Arguments that hold the surroundings of a call rather than its input."""
_MESSAGES: Final = ("input_messages", "output_messages")
_OBJECT_VALUES: Final = 200
"""Maximum number of values of an object that may be a client or service rather than data."""
_STRUCTURE: Final = 1_024
"""Bytes that the structure of a message may add to a text of the maximum length."""
_SMALL: Final = 2_000
"""Bytes of an output that is summarised as a whole."""
_SAMPLE: Final = 1_000
"""Maximum number of removed messages that are measured."""
_TOO_DEEP: Final = f"…[nested deeper than {MAX_DEPTH} levels]…"
_KEY_LENGTH: Final = 64
_WHOLE: Final = sys.maxsize
_SMALLER: Final = (
    *[(1 << bits, _WHOLE) for bits in range(17, 13, -1)],
    *[(1 << 14, 1 << bits) for bits in range(10, 4, -1)],
    *[(1 << bits, 32) for bits in range(12, 6, -2)],
    *[(64, 8), (64, 2)],
)
"""Lengths of texts and lists to try, in turn, for a value that is larger than its limit."""


class _TooLargeError(Exception):
    """A value is larger than the limit of the walk."""


class Described(NamedTuple):
    """Copy of an output with its size in bytes and its summary."""

    data: Any
    size: int
    summary: str


class ContentCopies:
    """Copies of content within the limits of one configuration.

    Args:
        privacy: redacts the copies, unless it has rules for single fields of content.
        message_bytes: limit of a message and of a single text.
        content_bytes: limit of all content of an event.
    """

    __slots__ = ("_privacy", "content_bytes", "longest")

    def __init__(
        self,
        privacy: Privacy | None = None,
        message_bytes: int = 256 * 1024,
        content_bytes: int = 3 * 1024 * 1024,
    ) -> None:
        self._privacy = privacy
        self.content_bytes = content_bytes
        self.longest = min(message_bytes, content_bytes // 4)
        """Maximum bytes of a text: four of them fit into an event."""

    def value(self, value: Any) -> Any:
        """Return a value as JSON data; a text that was cut is a `Cut`."""
        return self._value(self._walk(), value)

    def described(self, value: Any) -> Described:
        """Return a copy of a value with size and summary."""
        walk = self._walk()
        data = self._value(walk, value)
        if walk.is_same and walk.size < _SMALL and type(value) in (dict, list):
            # The copy holds nothing but JSON data, whose `repr` is what a summary shows.
            shown = repr(data)
            fits = len(shown) <= semconv.SUMMARY_LIMIT
            summary = values.text(shown) if fits else values.summary(data)
            return Described(data, values.encoded_size(data), summary)
        return Described(data, values.size(value), values.summary(value))

    def _value(self, walk: "_ContentWalk", value: Any) -> Any:
        if not issubclass(type(value), str):
            return self._fitted(walk, value, self.content_bytes)
        kept = walk.text(value)
        if walk.has_cut:
            kept = Cut(kept)
            kept.about = about_cut(value)
        return kept

    def arguments(self, pairs: Iterable[tuple[str, object]]) -> dict[str, Any]:
        """Return the arguments of a call by name."""
        data: dict[str, Any] = self._arguments(self._walk(), pairs)
        return data

    def described_arguments(self, pairs: Sequence[tuple[str, object]]) -> Described:
        """Return the arguments of a call by name with their size and summary."""
        walk = self._walk()
        data = self._arguments(walk, pairs)
        if walk.is_same and walk.size < _SMALL:
            shown = ", ".join([f"{name}: {value!r}" for name, value in data.items()])
            size = sum([values.encoded_size(value) for value in data.values()])
            fits = len(shown) <= semconv.SUMMARY_LIMIT
            summary = values.text(shown) if fits else values.call_summary(pairs)
            return Described(data, size, summary)
        size = sum([values.size(value) for _, value in pairs])
        return Described(data, size, values.call_summary(pairs))

    def _arguments(self, walk: "_ContentWalk", pairs: Iterable[tuple[str, object]]) -> Any:
        given = dict(pairs)
        for name in CONTEXTS.intersection(given):
            given[name] = walk.small(given[name])
        return self._fitted(walk, given, self.content_bytes)

    def messages(self, value: Any) -> list[Any]:
        """Return messages as a list; the first and the last one always stay."""
        for known in (list, tuple):
            if issubclass(type(value), known):
                items = take(known.__iter__(value), _WHOLE)
                return self._messages(items, self.content_bytes, self._walk())
        return [self._fitted(self._walk(), value, self.content_bytes)]

    def listed(self, value: Any) -> list[Any]:
        """Return a value as a list of JSON data."""
        data = self._fitted(self._walk(), value, self.content_bytes)
        return data if type(data) is list else [data]

    def sized(self, value: Any) -> tuple[Any, int]:
        """Return a value as JSON data, and about as many bytes as it has."""
        walk = self._walk()
        return self._fitted(walk, value, self.content_bytes), walk.size

    def joined(self, first: str, last: str, length: int) -> str:
        """Return a text whose middle is lost already (see `joined_ends`)."""
        ends = joined_ends(first, last, length, self.longest, self._redact)
        kept = Cut(self._redact(ends))
        kept.about = {**about_cut(first), "length": length, "sha256_of_first": len(first)}
        return kept

    def line(self, event: dict[str, Any]) -> Line:
        """Return an encoded event whose content is within the limit."""
        line = values.encode_line(event)
        if len(line.tail) <= self.content_bytes + _STRUCTURE or not event:
            return line
        # Redaction and escapes may make content longer, and the limit is that of all fields.
        smaller, left = dict(event), self.content_bytes
        sizes = {
            name: values.encoded_size({name: event[name]})
            for name in semconv.CONTENT_FIELDS
            if event.get(name) is not None
        }
        for index, name in enumerate(sorted(sizes, key=sizes.__getitem__)):
            share = left // (len(sizes) - index)
            if sizes[name] > share:
                smaller[name] = self._smaller(name, event[name], share)
                sizes[name] = share
                if type(event[name]) is str:
                    smaller.setdefault(f"{name}_truncated", about_cut(event[name]))
            left -= sizes[name]
        return values.encode_line(smaller)

    def _smaller(self, name: str, value: Any, room: int) -> Any:
        walk = _ContentWalk(self.longest, None)
        walk.is_exact = True
        if name in _MESSAGES and type(value) is list:
            return self._messages(value, room, walk)
        return self._fitted(walk, value, room)

    def _walk(self) -> "_ContentWalk":
        return _ContentWalk(self.longest, self._privacy)

    def _redact(self, text: str) -> str:
        return text if self._privacy is None else self._privacy.text(text)

    def _messages(self, items: list[Any], room: int, walk: "_ContentWalk") -> list[Any]:
        most = min(self.longest + _STRUCTURE, room // 4)
        left, nodes, total = room, MAX_VALUES, len(items)
        first: list[Any] = []
        for item in items:
            message = self._fitted(walk, item, most, nodes)
            left, nodes = left - walk.size, nodes - walk.used
            if first and (left < room // 2 or nodes < MAX_VALUES // 2):
                left, nodes = left + walk.size, nodes + walk.used
                break
            first.append(message)
        last: list[Any] = []
        while len(first) + len(last) < total:
            message = self._fitted(walk, items[-1 - len(last)], most, max(nodes, _OBJECT_VALUES))
            left, nodes = left - walk.size, nodes - walk.used
            if last and (left < _STRUCTURE or nodes <= 0):
                break
            last.append(message)
        if removed := items[len(first) : total - len(last)]:
            first.append(_removed_messages(removed))
        return [*first, *reversed(last)]

    def _fitted(self, walk: "_ContentWalk", value: Any, room: int, nodes: int = MAX_VALUES) -> Any:
        """Return a copy of a value in at most so many bytes and values."""
        try:
            return walk.copy(value, room, nodes, self.longest)
        except _TooLargeError:
            pass
        for longest, most_items in _SMALLER:
            try:
                return walk.copy(value, room, nodes, min(longest, self.longest), most_items)
            except _TooLargeError:
                continue
        return walk.copy(f"…[{values.size(value)} bytes removed]…", room, nodes, self.longest)


class _ContentWalk(PlainWalk):
    """Conversion to JSON data that stops at a limit, or removes the middle of texts and lists."""

    size = 0
    """Bytes of the copy as JSON."""
    is_exact = False
    """Whether the size is exact."""
    used = 0
    """Values of the copy."""
    has_cut = False
    is_same = True
    """Whether nothing was converted, cut or redacted."""
    _hide = False
    """Whether an enclosing key names a secret."""
    _most_bytes = _most_items = _WHOLE

    def __init__(self, longest: int, privacy: Privacy | None) -> None:
        super().__init__(MAX_VALUES)
        self.longest = longest
        self._lead_privacy = privacy
        self._privacy = privacy if privacy is not None and privacy.redacts_copies else None

    def copy(
        self, value: Any, room: int, nodes: int, longest: int, most_items: int = _WHOLE
    ) -> Any:
        """Return a copy of a value.

        Raises:
            _TooLargeError: the copy would have more bytes or values.
        """
        self.nodes, self.size, self._most_bytes, self._hide = nodes, 0, room, False
        self.longest, self._most_items = longest, most_items
        data = self.visit(value, MAX_DEPTH)
        self.used = nodes - self.nodes
        return data

    def small(self, value: Any) -> Any:
        """Return a small object as data, and only the type of a large one."""
        try:
            return self.copy(value, self.longest, _OBJECT_VALUES, self.longest)
        except _TooLargeError:
            return self.opaque(value)

    def text(self, value: str) -> Any:
        kept, size, privacy = value, str.__len__(value), self._privacy
        if type(value) is not str or size > self.longest or not value.isascii():
            kept, size = self._kept(value)
        if privacy is not None:
            new = privacy.hidden(kept) if self._hide else privacy.text(kept)
            if new is not kept:
                kept, size, self.is_same = new, size + len(new) - len(kept), False
        self.size += values.encoded_size(kept) + 1 if self.is_exact else size + 3
        if self.size > self._most_bytes:
            raise _TooLargeError
        return kept

    def _kept(self, value: str) -> tuple[str, int]:
        """Return a text without lone surrogates, or its ends, and the size."""
        if str.__len__(value) <= self.longest:
            kept = clean(str.__getitem__(value, slice(None)))
            if (size := len(kept.encode())) <= self.longest:
                self.is_same = self.is_same and kept is value
                return kept, size
        privacy = self._lead_privacy
        redact = str if privacy is None or self._hide else privacy.text
        kept = without_middle(value, self.longest, redact)
        self.has_cut, self.is_same = True, False
        return kept, len(kept.encode())

    def scalar(self, value: Any, kind: type) -> Any:
        if value is None or kind is bool:
            self.size += 6
            return value
        data = super().scalar(value, kind)
        if data is not value:
            self.is_same = False
            if type(data) is str:  # counted already
                return data
        if self._hide and data is not None:
            data, self.is_same = 0, False  # a number such as a PIN, so that its type stays
        self._count(values.encoded_size(data) + 1 if self.is_exact else 8)
        return data

    def mapping(self, value: Any, pairs: Pairs, length: int, depth: int) -> Any:
        removed = 0
        if length > self._most_items:
            half = self._most_items // 2
            last = list(islice(reversed(dict.items(value)), half))
            pairs, removed = [*pairs[:half], *reversed(last)], length - 2 * half
        elif length > self.nodes:
            raise _TooLargeError
        data: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        self._count(3 + 50 * (removed > 0))
        privacy, outer, text = self._privacy, self._hide, self.text
        open_keys = () if privacy is None else privacy.open_keys
        self.nodes -= len(pairs)
        for key, item in pairs:
            if type(key) is str and len(key) <= _KEY_LENGTH and key in open_keys:
                name, self._hide = key, outer
            else:
                name = self._name(key, outer)
            if name in data:  # 1 and "1" are equal in JSON
                name = distinct(name, data, numbers)
            self.size += values.encoded_size(name) + 1 if self.is_exact else len(name) + 4
            if type(item) is str:
                data[name] = text(item)
            else:
                self.nodes += 1
                data[name] = self.visit(item, depth)
        self._hide = outer
        if removed:
            data[distinct("…", data, numbers)] = f"…[{removed} fields removed]…"
        return data

    def _name(self, key: Any, outer: bool) -> str:
        """Return a key as text, and hide its value if it or an outer one names a secret."""
        name = key if type(key) is str and len(key) <= _KEY_LENGTH else values.summary(key)
        if not name.isascii():
            name = clean(name)
        if self._privacy is not None:
            name, hides = self._privacy.key(name)
            self._hide = outer or hides
        if name is not key:
            self.is_same = False
        return name

    def sequence(self, value: Any, items: Sequence[Any], length: int, depth: int) -> Any:
        self._count(3)
        if type(value) is not list:
            self.is_same = False
        if length <= self._most_items:
            if length > self.nodes:
                raise _TooLargeError
            text, visit = self.text, self.visit
            return [text(item) if type(item) is str else visit(item, depth) for item in items]
        self._count(100)
        half = self._most_items // 2
        first = [self.visit(item, depth) for item in items[:half]]
        last = [self.visit(item, depth) for item in _last(value, half)]
        removed = length - len(first) - len(last)
        mark: Any = f"…[{removed} items removed]…"
        if first and type(first[0]) is dict and "role" in first[0]:
            mark = {"role": CUT_ROLE, "content": "", "removed_messages": removed}
        return [*first, mark, *last]

    def record(self, value: Any, fields: Pairs, depth: int) -> Any:
        self.is_same = False
        if not fields:
            return self.opaque(value)
        nodes, size, outer = self.nodes, self.size, self._hide
        if _is_data(type(value)) or nodes <= _OBJECT_VALUES:
            return self.mapping(dict(fields), fields, len(fields), depth)
        self.nodes = _OBJECT_VALUES
        try:
            data = self.mapping(dict(fields), fields, len(fields), depth)
        except _TooLargeError:
            self.nodes, self.size, self._hide = nodes, size, outer
            return self.opaque(value)
        self.nodes += nodes - _OBJECT_VALUES
        return data

    def opaque(self, value: Any) -> Any:
        self.is_same = False
        return super().opaque(value)

    def cut(self) -> Any:
        if self.nodes <= 0:
            raise _TooLargeError
        self.is_same = False
        return self.text(_TOO_DEEP)

    def cycle(self) -> Any:
        self.is_same = False
        return super().cycle()

    def _count(self, size: int) -> None:
        self.size += size
        if self.size > self._most_bytes or self.nodes < 0:
            raise _TooLargeError


def _last(value: Any, most: int) -> list[Any]:
    """Return the last items of a sequence in order; none of a set."""
    kind = type(value)
    if issubclass(kind, tuple):
        return list(tuple.__getitem__(value, slice(-most, None)))
    for known in (list, deque):
        if issubclass(kind, known):
            return list(islice(known.__reversed__(value), most))[::-1]
    return []


def _is_data(kind: type) -> bool:
    """Return whether an object is data by its class, not a client or service."""
    return issubclass(kind, (SimpleNamespace, BaseException)) or values.declares_fields(kind)


def _removed_messages(removed: Sequence[Any]) -> dict[str, Any]:
    """Return the message in place of removed ones, of which one may be such a message."""
    others = [each for each in removed if not _is_mark(each)]
    sample = others[:: 1 + len(others) // _SAMPLE]
    count = len(others)
    size = sum([values.size(each) + 1 for each in sample]) * count // max(len(sample), 1)
    for each in removed:
        if _is_mark(each):
            count += values.count(each.get("removed_messages")) or 0
            size += values.count(each.get("removed_bytes")) or 0
    return {"role": CUT_ROLE, "content": "", "removed_messages": count, "removed_bytes": size}


def _is_mark(message: Any) -> bool:
    return type(message) is dict and message.get("role") == CUT_ROLE
