"""What a generator has given so far: counted and sized, its beginning kept as text, nothing held."""

import hashlib
import time
from typing import Any, Final

from tracereel import _values, semconv

GENERATOR: Final = "generator"
ASYNC_GENERATOR: Final = "async_generator"


class Stream:
    """The items of a generator, as its closing event tells of them."""

    __slots__ = (
        "_captures",
        "_digest",
        "_left",
        "_length",
        "_parts",
        "first_tick",
        "items",
        "kind",
        "size",
    )

    def __init__(self, kind: str, *, captures: bool) -> None:
        self.kind = kind
        self.items = 0
        self.first_tick: int | None = None
        """When the first item came that was not an empty text, by the performance counter."""
        self.size = 0
        self._captures = captures
        self._left = semconv.SUMMARY_LIMIT
        self._parts: list[str] = []
        self._length = 0
        self._digest = hashlib.sha256() if captures else None
        """Of the text so far; null once something else was given."""

    def add(self, item: Any) -> None:
        """Take note of an item; it is not kept."""
        if self.first_tick is None and not (type(item) is str and not item):
            self.first_tick = time.perf_counter_ns()
        self.items += 1
        self.size += _values.size(item)
        if self._digest is not None:
            self._measure(item)
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

    def about(self) -> dict[str, Any] | None:
        """Length and hash of a text of which the summary has only the beginning."""
        if self._digest is None or self._length <= semconv.SUMMARY_LIMIT:
            return None
        told: dict[str, Any] = {"length": self._length, "sha256": self._digest.hexdigest()}
        if self._length > _values.HASHED_LIMIT:
            told["sha256_of_first"] = _values.HASHED_LIMIT
        return told

    def _measure(self, item: Any) -> None:
        if type(item) is not str or self._digest is None:
            self._digest = None
            return
        left = _values.HASHED_LIMIT - self._length
        if left > 0:
            self._digest.update(item[:left].encode("utf-8", "surrogatepass"))
        self._length += len(item)

    def partial(self) -> dict[str, Any]:
        """What there was when it ended early."""
        return {"items": self.items, "summary": self.summary() if self._captures else None}
