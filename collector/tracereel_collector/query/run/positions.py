"""Positions in a timeline, after which the next page begins."""

import msgspec


class Cursor(msgspec.Struct, frozen=True, order=True):
    """Position in a timeline, after which the next page begins."""

    position: int = 0
    number: int = 0
    key: str = ""
    """Place of a span behind the event with that position and number: `place_key`."""

    def __str__(self) -> str:
        return "-".join(map(str, [self.position, self.number, *([self.key] * bool(self.key))]))


BEGINNING = Cursor()
_KEY_DIGITS = 16
BEFORE_SPANS = "0"
"""Text that sorts before all span ids, for the place of an event."""


def place_key(position: int, span_id: str, number: int = 0) -> str:
    """Return a text that sorts by position, then by span, then by the number of a span event."""
    return f"{position:0{_KEY_DIGITS}x}{span_id}{f'{number:08x}' if number else ''}"


def span_place(after: Cursor) -> tuple[int, str, int]:
    """Return time, span id and number after which spans and span events of the next page begin."""
    if not after.key:
        return after.position, "", 0
    second = 2 * _KEY_DIGITS
    number = after.key[second:]
    return int(after.key[:_KEY_DIGITS], 16), after.key[_KEY_DIGITS:second], int(number or "0", 16)
