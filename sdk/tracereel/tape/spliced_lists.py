"""Lists of a tape that repeat items of earlier lists, stored as pieces of those.

A call of a long conversation sends the whole history again. The text of such a list is
`{"$": "spliced", "v": [piece, …]}`. A piece is a list of items, or `{"h", "from", "to"}`: items of
the list that was stored before under the hash `h`. So n calls take O(n) bytes, also when the
first message changes with every call or old messages are left out.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

SPLICED: Final = "spliced"
MAX_ITEMS: Final = 20_000
"""Longest list that is compared with earlier ones."""
MAX_KNOWN: Final = 5 * MAX_ITEMS
MAX_STEPS: Final = 10_000
"""Lists to go through to read one; beyond that a list is stored whole."""
_MIN_BYTES: Final = 128
"""Shortest run of items that is worth a reference."""
_CONTAINERS: Final = (b"[", b"{", b'"')


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    name: str
    digests: list[bytes]
    steps: int


class SplicedLists:
    """Lists that were stored so far, found by their items."""

    def __init__(self) -> None:
        self._at: dict[bytes, tuple[_Stored, int]] = {}
        """List that contains an item, and its first position there; the latest list wins."""

    def store(self, items: Sequence[Any], put: Callable[[Any], str]) -> str:
        """Store a list of JSON texts as pieces, with `put`, and return its name."""
        texts = [bytes(item) for item in items]
        if not 0 < len(texts) <= MAX_ITEMS or texts[0][:1] not in _CONTAINERS:
            return put(items)
        digests = [hashlib.blake2b(text, digest_size=12).digest() for text in texts]
        pieces, used = self._pieces(items, texts, digests)
        steps = 1 + len(pieces) + sum(each.steps for each in used)
        if not used or steps > MAX_STEPS:
            stored = _Stored(put(items), digests, 1)
        elif len(pieces) == 1 and len(digests) == len((whole := used.pop()).digests):
            stored = whole
        else:
            stored = _Stored(put({"$": SPLICED, "v": pieces}), digests, steps)
        if len(self._at) > MAX_KNOWN:
            self._at.clear()
        for position in range(len(digests) - 1, -1, -1):
            self._at[digests[position]] = stored, position
        return stored.name

    def _pieces(
        self, items: Sequence[Any], texts: list[bytes], digests: list[bytes]
    ) -> tuple[list[Any], set[_Stored]]:
        pieces: list[Any] = []
        used: set[_Stored] = set()
        for start, stop, found in self._runs(digests):
            if found is None or sum(map(len, texts[start:stop])) < _MIN_BYTES:
                if not pieces or type(pieces[-1]) is not list:
                    pieces.append([])
                pieces[-1] += items[start:stop]
            else:
                stored, position = found
                end = position + stop - start
                pieces.append({"h": stored.name, "from": position, "to": end})
                used.add(stored)
        return pieces, used

    def _runs(self, digests: list[bytes]) -> Iterator[tuple[int, int, tuple[_Stored, int] | None]]:
        """Yield runs of items, each with the place where it was stored, or `None`."""
        start = 0
        while start < len(digests):
            stop = start + 1
            found = self._at.get(digests[start])
            if found is not None:
                stored, position = found
                known, rest = stored.digests[position:], digests[start:]
                same = next(
                    (n for n, (a, b) in enumerate(zip(known, rest, strict=False)) if a != b),
                    min(len(known), len(rest)),
                )
                stop = start + same
            yield start, stop, found
            start = stop


def cut(pieces: Sequence[Any], start: int, stop: int) -> list[Any]:
    """Return the part of pieces that holds the items from `start` to before `stop`."""
    found: list[Any] = []
    at = 0
    for piece in pieces:
        size = length(piece)
        first, last = max(start - at, 0), min(stop - at, size)
        if first < last:
            if type(piece) is list:
                found.append(piece[first:last])
            else:
                begin = piece["from"]
                found.append({**piece, "from": begin + first, "to": begin + last})
        at += size
    if not 0 <= start <= stop <= at:
        raise ValueError(f"items {start} to {stop} of a list of {at}")
    return found


def length(piece: Any) -> int:
    """Return the number of items of a piece."""
    if type(piece) is list:
        return len(piece)
    if type(piece) is dict and type(piece.get("from")) is int and type(piece.get("to")) is int:
        size: int = piece["to"] - piece["from"]
        if piece["from"] >= 0 and size > 0:
            return size
    raise ValueError(f"a piece of a list is {piece!r:.80}; expected items, or h, from and to")
