"""Output of a generator: counted, summarised and copied, without keeping items."""

import time
from collections import deque
from typing import Any, Final

from tracereel import semconv
from tracereel._redact import values
from tracereel._redact.content import ContentCopies
from tracereel._redact.text_limits import LEAD

GENERATOR: Final = "generator"
ASYNC_GENERATOR: Final = "async_generator"
MAX_ITEMS: Final = 10_000
"""Maximum number of copied items at each end of the output."""


class OutputStream:
    """Output of a generator, for its closing event.

    Args:
        kind: type of the generator.
        copies: copies of content; None if it is not recorded.
    """

    __slots__ = ("_captures", "_left", "_output", "_parts", "first_tick", "items", "kind", "size")

    def __init__(self, kind: str, copies: ContentCopies | None) -> None:
        self.kind = kind
        self.items = 0
        self.first_tick: int | None = None
        """Performance counter at the first item that is not an empty string."""
        self.size = 0
        self._captures = copies is not None
        self._left = semconv.SUMMARY_LIMIT
        self._parts: list[str] = []
        self._output: _Texts | _Items | None = None if copies is None else _Texts(copies)

    def add(self, item: Any) -> None:
        """Count and copy an item without keeping it."""
        if self.first_tick is None and not (type(item) is str and not item):
            self.first_tick = time.perf_counter_ns()
        self.items += 1
        self.size += values.size(item)
        if self._output is not None:
            self._output = self._output.with_item(item)
        if self._captures and self._left > 0:
            text = type(item) is str
            part = values.summary(item, self._left + 1)
            # Text pieces are concatenated; other items are joined as a list.
            if self._parts and not text:
                part = f", {part}"
            self._parts.append(part)
            self._left -= len(part)

    def summary(self) -> str:
        """Return the beginning of the output as text."""
        return values.text("".join(self._parts), semconv.SUMMARY_LIMIT)

    def output(self) -> Any:
        """Return the yielded items, joined if all are texts; None if there are none."""
        return self._output.result() if self._output is not None and self.items else None

    def partial(self) -> dict[str, Any]:
        """Return the output of a call that ended early."""
        return {"items": self.items, "summary": self.summary() if self._captures else None}


class _Texts:
    """Output of texts only; of a long one the beginning and the end."""

    def __init__(self, copies: ContentCopies) -> None:
        self._copies = copies
        self._end = copies.longest // 2 + LEAD
        self._first: str | None = None
        """Beginning, once the text is too long."""
        self._pieces: list[str] = []
        self._size = 0
        """Characters of the pieces."""
        self._length = 0

    def with_item(self, item: Any) -> "_Texts | _Items":
        """Return the output with another item."""
        if type(item) is not str:
            result = [self.result()] if self._first is not None else self._pieces
            return _Items(self._copies, result).with_item(item)
        self._pieces.append(item)
        self._size += len(item)
        self._length += len(item)
        if self._size > 4 * self._end:
            text = "".join(self._pieces)
            if self._first is None:
                self._first = text[: self._copies.longest // 2]
            self._pieces = [text[-self._end :]]
            self._size = self._end
        return self

    def result(self) -> Any:
        """Return the text."""
        text = "".join(self._pieces)
        if self._first is None:
            return self._copies.value(text)
        return self._copies.joined(self._first, text, self._length)


class _Items:
    """Output of any items; of many the first and the last ones."""

    def __init__(self, copies: ContentCopies, texts: list[str]) -> None:
        self._copies = copies
        self._room = copies.content_bytes // 2
        self._first: list[Any] = []
        self._last: deque[tuple[Any, int]] = deque()
        self._first_size = self._last_size = self._removed = 0
        for text in texts:
            self.with_item(text)

    def with_item(self, item: Any) -> "_Items":
        """Return the output with another item."""
        data, size = self._copies.sized(item)
        fits = len(self._first) < MAX_ITEMS and self._first_size + size <= self._room
        if fits and not self._last:
            self._first_size += size
            self._first.append(data)
            return self
        self._last.append((data, size))
        self._last_size += size
        while len(self._last) > 1 and (self._last_size > self._room or len(self._last) > MAX_ITEMS):
            self._last_size -= self._last.popleft()[1]
            self._removed += 1
        return self

    def result(self) -> list[Any]:
        """Return the items."""
        mark = [f"…[{self._removed} items removed]…"] if self._removed else []
        return [*self._first, *mark, *(data for data, _ in self._last)]
