"""Options of a re-execution."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from tracereel.tape.overrides import Override

Mode = Literal["strict", "report", "live-after"]
MODES: Final = ("strict", "report", "live-after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a re-execution."""

    mode: Mode = "strict"
    allow: frozenset[str] = frozenset()
    """Names of tools that may run although they have side effects."""
    fork_at: int | None = None
    """Number of the first live call, from 1."""
    branch: bool = False
    """Whether this is a fork; then differences from the tape are not divergences."""
    overrides: tuple[Override, ...] = ()
    stall_seconds: float = 10.0
    compare_output: bool = True
    freeze: bool = False
    allow_network: bool | Iterable[str] = False
    """Hosts that may be reached, or whether all may."""
