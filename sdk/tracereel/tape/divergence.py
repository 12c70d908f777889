"""Where a re-execution leaves the tape: which call, how it differs, at which line of the program."""

import linecache
import re
import sys
import sysconfig
from asyncio import _get_running_loop
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

from tracereel.tape.differences import Difference, is_new_in_every_run

Kind = Literal[
    "changed",
    "extra",
    "missing",
    "out of order",
    "stream",
    "decision",
    "output",
    "network",
    "stalled",
]
_LOCATION: Final = re.compile(r"(.+):(\d+) in .+")
_OWN: Final = str(Path(__file__).parent.parent)
_STDLIB: Final = sysconfig.get_paths()["stdlib"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """One difference between the tape and the run."""

    kind: Kind
    name: str
    """What was called, or should have been."""
    path: str
    position: int
    """Which call it is among those of the run, from 1 on; 0 where it is not one call."""
    differences: tuple[Difference, ...] = ()
    location: str | None = None
    """File and line of the program."""
    detail: str = ""

    def __str__(self) -> str:
        place = f"call {self.position}, " if self.position else ""
        lines = [f"{place}{self.path}: {_SENTENCES[self.kind]}"]
        lines += [f"  {line}" for line in self.detail.splitlines()]
        lines += [f"  {line}" for each in self.differences for line in each.lines()]
        if self.differences and all(map(is_new_in_every_run, self.differences)):
            lines.append(
                "  ids and times are new in every run, unless a traced tool gives them;"
                " dates are those of the recording with freeze=True (--freeze)"
            )
        if self.location:
            lines.append(f"  at {self.location}")
            lines += [f"     {line}" for line in _source(self.location)]
        return "\n".join(lines)

    def as_record(self) -> dict[str, Any]:
        """The divergence as plain data."""
        return {
            "kind": self.kind,
            "name": self.name,
            "path": self.path,
            "position": self.position,
            "differences": [str(difference) for difference in self.differences],
            "location": self.location,
            "detail": self.detail,
        }


_SENTENCES: Final[dict[str, str]] = {
    "changed": "the arguments are not those on the tape",
    "extra": "this call is not on the tape",
    "missing": "this call is on the tape and was not made",
    "out of order": "this call was made at another place than on the tape",
    "stream": "the stream was not read as on the tape",
    "decision": "the decision is not the one on the tape",
    "output": "the result of the run is not the one on the tape",
    "network": "the network was used outside of any recorded call",
    "stalled": "the run waits for something that the tape does not give",
}


def _source(location: str) -> list[str]:
    """The line of the program that a location names, if it can be read."""
    found = _LOCATION.match(location)
    line = linecache.getline(found[1], int(found[2])).strip() if found else ""
    return [line] if line else []


class DivergenceError(BaseException):
    """Raised where a re-execution leaves the tape.

    Not an `Exception`: a retry loop of the program's must not take it for a failure of the call.
    """

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(str(divergence))
        self.divergence = divergence


class TapeEndedError(BaseException):
    """The tape was cut here, by a crash or a limit: everything up to here was replayed."""


class NotAllowedError(BaseException):
    """A tool that changes the world would have run, and was not asked for by name."""


@dataclass(slots=True)
class Report:
    """What a re-execution found."""

    trace_id: str
    served: int = 0
    live: int = 0
    divergences: list[Divergence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What else is worth knowing: code that changed, a tape that is only partly good."""
    ended_early: bool = False
    """Whether the tape was cut before the run had ended."""
    refused: str = ""
    """Why the run was stopped, if it wanted to call what it may not."""
    branch: bool = False
    """Whether it was to become another run: a fork."""
    live_from: int | None = None
    """Number of the first call that was made, once the run went on by itself."""

    @property
    def first(self) -> Divergence | None:
        """The first divergence."""
        return self.divergences[0] if self.divergences else None

    @property
    def identical(self) -> bool:
        """Whether the run went as on the tape, to its end."""
        return not self.divergences and not self.ended_early and not self.refused

    def __str__(self) -> str:
        served = f"{self.served} {'call' if self.served == 1 else 'calls'} served, {self.live} made"
        if self.branch and not self.divergences:
            since = f" from call {self.live_from} on" if self.live_from else ""
            head = f"A branch of {self.trace_id}{since}: {served}."
        elif self.identical and not self.live:
            head = f"The run of {self.trace_id} went as recorded: {served}."
        elif self.live:
            head = f"The run of {self.trace_id} went on by itself: {served}."
        elif self.divergences:
            count = len(self.divergences)
            often = "once" if count == 1 else f"{count} times"
            head = f"The run of {self.trace_id} left its tape {often}: {served}."
        elif self.refused:
            head = f"The run of {self.trace_id} was stopped: {served}."
        else:
            head = f"The tape of {self.trace_id} ends before the run did: {served}."
        return "\n".join([head, *self.notes, *(str(each) for each in self.divergences)])


def location(function: Any = None) -> str | None:
    """The line of the program that is making a call; of a task, where its function is.

    A call that a library makes for the program is told of where the program calls the library.
    """
    library: str | None = None
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the callers
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_STDLIB) and "site-packages" not in file and "asyncio" in file:
            break  # the loop has started the task: who made it is not known any more
        if not file.startswith((_OWN, _STDLIB, "<")):
            found = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
            if "site-packages" not in file:
                return found
            library = library or found
        frame = frame.f_back
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename.startswith(_OWN):
        return library
    how = "as a task" if _get_running_loop() is not None else "in a thread"
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}, run {how}"
