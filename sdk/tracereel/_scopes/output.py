"""What a generator has given so far: counted and sized, its beginning kept as text, nothing held."""

import time
from typing import Any, Final

from tracereel import _values, semconv

GENERATOR: Final = "generator"
ASYNC_GENERATOR: Final = "async_generator"


class Stream:
    """The items of a generator, as its closing event tells of them."""

    __slots__ = ("_captures", "_left", "_parts", "first_tick", "items", "kind", "size")

    def __init__(self, kind: str, *, captures: bool) -> None:
        self.kind = kind
        self.items = 0
        self.first_tick: int | None = None
        """When the first item came, by the performance counter."""
        self.size = 0
        self._captures = captures
        self._left = semconv.SUMMARY_LIMIT
        self._parts: list[str] = []

    def add(self, item: Any) -> None:
        """Take note of an item; it is not kept."""
        if self.first_tick is None:
            self.first_tick = time.perf_counter_ns()
        self.items += 1
        self.size += _values.size(item)
        if self._captures and self._left > 0:
            text = type(item) is str
            part = _values.summary(item, self._left + 1)
            # Pieces of text are one text; anything else is a list of things.
            if self._parts and not text:
                part = f", {part}"
            self._parts.append(part)
            self._left -= len(part)

    def summary(self) -> str:
        """The beginning of what was given, as text."""
        return _values.text("".join(self._parts), semconv.SUMMARY_LIMIT)

    def partial(self) -> dict[str, Any]:
        """What there was when it ended early."""
        return {"items": self.items, "summary": self.summary() if self._captures else None}
