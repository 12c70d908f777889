"""User-defined rules, applied to long texts in windows to bound their time."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tracereel._redact.secret_patterns import hidden
from tracereel._redact.text_limits import TEXT_LIMIT

WINDOW: Final = TEXT_LIMIT
"""Characters searched at once: a whole event text; tapes hold longer ones."""
OVERLAP: Final = 1_024
"""Longest match that is found across two windows."""


@dataclass(frozen=True, slots=True)
class WindowedPattern:
    """User-defined rule that searches at most `WINDOW` characters at once.

    A pattern with quadratic time per window has linear time on the text.
    """

    name: str
    pattern: "re.Pattern[str]"

    def apply(self, text: str, count: Callable[[str], None]) -> str:
        """Return the text with every match replaced by a mark."""
        parts, end = [], 0
        for match in self._matches(text):
            parts += [text[end : match.start()], hidden(self.name, match, count)]
            end = match.end()
        return "".join([*parts, text[end:]])

    def finds(self, text: str) -> bool:
        """Return whether anything in a text matches."""
        return next(self._matches(text), None) is not None

    def _matches(self, text: str) -> "Iterator[re.Match[str]]":
        start = 0
        while start < len(text):
            edge = start + WINDOW
            is_last = edge >= len(text)
            following = len(text) if is_last else edge - OVERLAP
            for match in self.pattern.finditer(text, start, edge):
                if match.start() >= following:
                    break
                if match.end() > match.start():
                    yield match
                    following = max(following, match.end())
            start = following
