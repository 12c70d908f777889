"""Recorders that stand in for the one in force where part of the program has its own: a re-execution."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, eq=False)
class StandIn:
    """A recorder, and whether the code that asks is to use it."""

    recorder: Any
    is_here: Callable[[], bool]


in_force: Final[list[StandIn]] = []
"""The last one that fits wins. Empty but for moments: whoever asks looks at that first."""


def begin(stand_in: StandIn) -> None:
    """Put one in force, also for programs that configure anew meanwhile."""
    in_force.append(stand_in)


def end(stand_in: StandIn) -> None:
    """Take it away again."""
    if stand_in in in_force:
        in_force.remove(stand_in)


def here() -> Any:
    """The recorder that stands in for the code that asks; null where none does."""
    for each in reversed(in_force):
        if each.is_here():
            return each.recorder
    return None
