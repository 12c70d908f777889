"""Size limit for assembled responses, so that an endless stream cannot exhaust memory."""

from typing import Final

MAX_KEPT_CHARACTERS: Final = 32 * 2**20


class Room:
    """Character budget of a response."""

    __slots__ = ("_left", "lost")

    def __init__(self, characters: int) -> None:
        self._left = characters
        self.lost = 0
        """Characters that were dropped."""

    def keep(self, parts: list[str], part: str) -> None:
        """Append a part if the budget allows it."""
        self._left -= len(part)
        if self._left >= 0:
            parts.append(part)
        else:
            self.lost += len(part)
