"""Programs with named changes: those of behaviour, and refactors that must not matter."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

changes: set[str] = set()
"""Changes that are in force."""
ran: list[str] = []
"""Models and tools that were really called."""


@dataclass(frozen=True)
class Program:
    """Program, and what a replay must say of each of its changes."""

    name: str
    run: Callable[[], Any]
    verdicts: dict[str, str] = field(default_factory=dict)
    harmless: tuple[str, ...] = ()


PROGRAMS: dict[str, Program] = {}


def program(*harmless: str, **verdicts: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a program, by the names of its harmless changes and the verdicts on the others."""

    def add(run: Callable[[], Any]) -> Callable[[], Any]:
        PROGRAMS[run.__name__] = Program(run.__name__, run, verdicts, harmless)
        return run

    return add


def has(change: str) -> bool:
    return change in changes
