"""Recorders that replace the active one for part of a program, as in a re-execution."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, eq=False)
class StandIn:
    """Replacement recorder, and a predicate for the code that uses it."""

    recorder: Any
    is_here: Callable[[], bool]


in_force: Final[list[StandIn]] = []
"""Active replacements; the last match wins. Usually empty, which callers check first."""


def begin(stand_in: StandIn) -> None:
    """Activate a replacement; it stays active if the program calls `configure`."""
    in_force.append(stand_in)


def end(stand_in: StandIn) -> None:
    """Deactivate a replacement."""
    if stand_in in in_force:
        in_force.remove(stand_in)


def here() -> Any:
    """Return the replacement recorder for the calling code, or `None`."""
    for each in reversed(in_force):
        if each.is_here():
            return each.recorder
    return None
