"""Divergences between a re-execution and its tape."""

import linecache
import re
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal, get_args

from tracereel._runtime.compat import running_loop_or_none
from tracereel.errors import ReplayStoppedError
from tracereel.tape.differences import ValueDifference, is_new_in_every_run
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
KINDS: Final = get_args(Kind)
_LOCATION: Final = re.compile(r"(.+):(\d+) in ([^,]+)")
_NUMBERED: Final = re.compile(r" #\d+(?= / |$)")
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
    call_kind: str = ""
    """`llm`, `tool` or `retrieval`, if it concerns a call."""
    arguments: tuple[Any, Any] | None = field(default=None, repr=False, compare=False)
    """Arguments on the tape and of this run, as data, if they changed."""

    @property
    def headline(self) -> str:
        """Return the place and the kind of difference in one line."""
        place = f"call {self.position}, " if self.position else ""
        return f"{place}{printable(self.path)}: {_SENTENCES[self.kind]}"

    @property
    def place(self) -> str:
        """Return the path without the numbers of repeated calls, to group by."""
        return _NUMBERED.sub("", self.path)

    def __str__(self) -> str:
        lines = [self.headline]
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
        """Return the divergence as plain data for the collector."""
        return {
            "kind": self.kind,
            "name": self.name,
            "path": self.path,
            "position": self.position,
            "differences": list(map(str, self.differences)),
            "location": self.location,
            "detail": self.detail,
            "call_kind": self.call_kind,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the divergence as plain data for programs."""
        found = _LOCATION.match(self.location or "")
        return {
            "kind": self.kind,
            "call_kind": self.call_kind,
            "name": self.name,
            "path": self.path,
            "place": self.place,
            "position": self.position,
            "differences": [
                {"where": each.where, "recorded": each.recorded, "now": each.now}
                for each in self.differences
            ],
            "code": found
            and {
                "file": found[1],
                "line": int(found[2]),
                "function": found[3],
                "source": "".join(_source(found[0])),
            },
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
    """Return the source line of a location, if it can be read."""
    found = _LOCATION.match(location)
    line = linecache.getline(found[1], int(found[2])).strip() if found else ""
    return [line] if line else []


class DivergenceError(ReplayStoppedError):
    """A re-execution differs from the tape."""

    def __init__(self, divergence: Divergence) -> None:
        super().__init__(str(divergence))
        self.divergence = divergence


class TapeEndedError(ReplayStoppedError):
    """The tape was cut here by a crash or a limit; everything before was replayed."""


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


def error_within(
    error: BaseException | None, kinds: tuple[type[BaseException], ...]
) -> BaseException | None:
    """Return an error of these kinds, also from the exception group of a group of tasks."""
    while isinstance(error, BaseExceptionGroup):
        found = error.subgroup(kinds)
        error = found.exceptions[0] if found is not None else None
    return error if isinstance(error, kinds) else None


def raised_at(error: BaseException) -> str | None:
    """Return the program's innermost line in the traceback of an exception."""
    found: str | None = None
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        file = code.co_filename
        if not file.startswith((_OWN, _STDLIB, "<")) and "site-packages" not in file:
            found = f"{file}:{step.tb_lineno} in {code.co_name}"
        step = step.tb_next
    return found
