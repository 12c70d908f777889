"""Divergences between a re-execution and its tape, and the report that lists them."""

import linecache
import re
import sys
import sysconfig
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

from tracereel._runtime.compat import running_loop_or_none
from tracereel.tape.differences import ValueDifference, is_new_in_every_run
from tracereel.tape.payloads import Packed
from tracereel.tape.text import printable

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
MAX_NOTES: Final = 20
_LOCATION: Final = re.compile(r"(.+):(\d+) in .+")
_OWN: Final = str(Path(__file__).parent.parent)
_STDLIB: Final = sysconfig.get_paths()["stdlib"]


@dataclass(frozen=True, slots=True)
class Divergence:
    """One difference between the tape and the run."""

    kind: Kind
    name: str
    """Name of the call, decision type or host."""
    path: str
    position: int
    """Position of the call in the run, from 1; 0 if not a single call."""
    differences: tuple[ValueDifference, ...] = ()
    location: str | None = None
    """File and line of the program."""
    detail: str = ""

    def __str__(self) -> str:
        place = f"call {self.position}, " if self.position else ""
        lines = [f"{place}{printable(self.path)}: {_SENTENCES[self.kind]}"]
        lines += [f"  {printable(line)}" for line in self.detail.splitlines()]
        lines += [f"  {printable(line)}" for each in self.differences for line in each.lines()]
        if self.differences and all(map(is_new_in_every_run, self.differences)):
            lines.append(
                "  ids and times are new in every run, unless a traced tool gives them;"
                " dates are those of the recording with freeze=True (--freeze)"
            )
        if self.location:
            lines.append(f"  at {printable(self.location)}")
            lines += [f"     {printable(line)}" for line in _source(self.location)]
        return "\n".join(lines)

    def as_record(self) -> dict[str, Any]:
        """Return the divergence as plain data."""
        return {**asdict(self), "differences": list(map(str, self.differences))}


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
    """Return the source line of a location, if it can be read."""
    found = _LOCATION.match(location)
    line = linecache.getline(found[1], int(found[2])).strip() if found else ""
    return [line] if line else []


class DivergenceError(BaseException):
    """A re-execution differs from the tape.

    It is not an `Exception`, so that the program's retry loops do not handle it as a failed call.
    """

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(str(divergence))
        self.divergence = divergence


class TapeEndedError(BaseException):
    """The tape was cut here by a crash or a limit; everything before was replayed."""


class NotAllowedError(BaseException):
    """A tool with side effects would have run without being allowed by name."""


@dataclass(slots=True)
class Report:
    """Result of a re-execution."""

    trace_id: str
    served: int = 0
    live: int = 0
    divergences: list[Divergence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Remarks such as changed code or an incomplete tape."""
    ended_early: bool = False
    """Whether the tape ended before the run."""
    refused: str = ""
    """Why the run was stopped, if it attempted a call that is not allowed."""
    branch: bool = False
    """Whether the run is a fork."""
    live_from: int | None = None
    """Number of the first live call, if the run continued live."""

    @property
    def first(self) -> Divergence | None:
        """First divergence, or `None`."""
        return self.divergences[0] if self.divergences else None

    @property
    def identical(self) -> bool:
        """Whether the whole run matched the tape."""
        return not self.divergences and not self.ended_early and not self.refused

    def note_unread(self, what: str, packed: Packed) -> None:
        """Add a note for objects that are compared by type only."""
        for problem in packed.problems:
            if problem.startswith("builtins:"):
                continue  # functions and generators have nothing to compare
            note = (
                f"Note: {what} is compared by its type only: {problem} (tracereel.tape.register)."
            )
            if note not in self.notes and len(self.notes) < MAX_NOTES:
                self.notes.append(note)

    def __str__(self) -> str:
        trace_id = printable(self.trace_id)
        served = f"{self.served} {'call' if self.served == 1 else 'calls'} served, {self.live} made"
        if self.branch and not self.divergences:
            since = f" from call {self.live_from} on" if self.live_from else ""
            head = f"A branch of {trace_id}{since}: {served}."
        elif self.identical and not self.live:
            head = f"The run of {trace_id} went as recorded: {served}."
        elif self.live:
            head = f"The run of {trace_id} went on by itself: {served}."
        elif self.divergences:
            count = len(self.divergences)
            often = "once" if count == 1 else f"{count} times"
            head = f"The run of {trace_id} left its tape {often}: {served}."
        elif self.refused:
            head = f"The run of {trace_id} was stopped: {served}."
        else:
            head = f"The tape of {trace_id} ends before the run did: {served}."
        return "\n".join([head, *map(printable, self.notes), *map(str, self.divergences)])


def location(function: Any = None) -> str | None:
    """Return the program's line that makes or leads to the current call, or starts its task."""
    library: str | None = None
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to get caller frames
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_STDLIB) and "site-packages" not in file and "asyncio" in file:
            break  # the loop runs a task: the frames that created it are gone
        if not file.startswith((_OWN, _STDLIB, "<")):
            found = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
            if "site-packages" not in file:
                return found
            library = library or found
        frame = frame.f_back
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename.startswith(_OWN):
        return library
    how = "as a task" if running_loop_or_none() is not None else "in a thread"
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}, run {how}"
