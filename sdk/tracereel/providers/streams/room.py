"""How much of a streamed answer is kept: a stream that never ends must not fill memory."""

from typing import Final

MAX_KEPT_CHARACTERS: Final = 32 * 2**20


class Room:
    """Counts the characters of an answer while it is put together."""

    __slots__ = ("_left", "lost")

    def __init__(self, characters: int) -> None:
        self._left = characters
        self.lost = 0
        """Characters that came and were not kept."""

    def keep(self, parts: list[str], part: str) -> None:
        """Adds a part while there is room."""
        self._left -= len(part)
        if self._left >= 0:
            parts.append(part)
        else:
            self.lost += len(part)
