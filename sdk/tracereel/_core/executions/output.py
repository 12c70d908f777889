"""Output of a generator: counted and summarised, without keeping items."""

import hashlib
import time
from typing import Any, Final

from tracereel import semconv
from tracereel._redact import values

GENERATOR: Final = "generator"
ASYNC_GENERATOR: Final = "async_generator"


class OutputStream:
    """Output statistics of a generator, for its closing event."""

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
        """Performance counter at the first item that is not an empty string."""
        self.size = 0
        self._captures = captures
        self._left = semconv.SUMMARY_LIMIT
        self._parts: list[str] = []
        self._length = 0
        self._digest = hashlib.sha256() if captures else None
        """Hash of the text so far; None once an item is not text."""

    def add(self, item: Any) -> None:
        """Count an item without keeping it."""
        if self.first_tick is None and not (type(item) is str and not item):
            self.first_tick = time.perf_counter_ns()
        self.items += 1
        self.size += values.size(item)
        if self._digest is not None:
            self._measure(item)
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

    def about(self) -> dict[str, Any] | None:
        """Return length and hash of a text that the summary truncates, else `None`."""
        if self._digest is None or self._length <= semconv.SUMMARY_LIMIT:
            return None
        told: dict[str, Any] = {"length": self._length, "sha256": self._digest.hexdigest()}
        if self._length > values.HASHED_LIMIT:
            told["sha256_of_first"] = values.HASHED_LIMIT
        return told

    def _measure(self, item: Any) -> None:
        if type(item) is not str or self._digest is None:
            self._digest = None
            return
        left = values.HASHED_LIMIT - self._length
        if left > 0:
            self._digest.update(item[:left].encode("utf-8", "surrogatepass"))
        self._length += len(item)

    def partial(self) -> dict[str, Any]:
        """Return the output of a call that ended early."""
        return {"items": self.items, "summary": self.summary() if self._captures else None}
