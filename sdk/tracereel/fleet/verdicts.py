"""Verdicts of runs as data: one line per run in a file from which reports are made."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from tracereel.client.exports import whole_file
from tracereel.errors import TracereelError
from tracereel.fleet.file import MAX_RUNS
from tracereel.fleet.prompts import PromptChange
from tracereel.tape.report import Verdict

MAX_LINE: Final = 1024 * 1024
MAX_CAUSES: Final = 20
MAX_TEXT: Final = 4_000
MAX_NAMES: Final = 50
SUFFIX: Final = ".verdicts.ndjson"
Kind = Literal["same", "changed", "prompt_changed", "inconclusive", "flaky"]


class VerdictsError(TracereelError):
    """A file of verdicts is missing or damaged."""


class Cause(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Why a run differs; runs with equal causes are one group."""

    kind: str
    place: str = ""
    """Path in the run, without the numbers of repeated calls."""
    code: str = ""
    """File, line and function of the program."""
    argument: str = ""
    """Path of the argument or field that differs first."""

    def __str__(self) -> str:
        parts = (self.kind, self.place, self.argument, self.code)
        return " · ".join(each for each in parts if each)


class RunVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict of one run, with its causes."""

    trace_id: str
    verdict: Verdict
    causes: tuple[Cause, ...] = ()
    name: str = ""
    agents: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    text: str = ""
    """Report of the replay, cut."""
    recorded_at: str = ""
    recorded_end: str = ""
    """How the recorded run ended: `returned`, `raised` …"""
    end: str = ""
    """How it ended now; empty if it was stopped."""
    prompts: tuple[PromptChange, ...] = ()
    """Changed prompts by model, if nothing else has changed."""
    not_compared: tuple[str, ...] = ()
    process: Literal["fork", "fresh", "none"] = "none"
    culprit: str = ""
    """Why the worker could not fork for each run."""
    network: str = ""
    """Why sockets that are not Python's had a network."""
    cpu_seconds: float = 0.0
    calls: int = 0
    flaky: tuple[str, ...] = ()
    """Verdicts of the repetitions, if they differed."""

    @property
    def kind(self) -> Kind:
        """The verdict, or `flaky`."""
        return "flaky" if self.flaky else self.verdict

    @property
    def cause(self) -> Cause:
        """First cause."""
        return self.causes[0] if self.causes else Cause(kind=self.verdict)

    def alike(self, other: "RunVerdict") -> bool:
        """Return whether two replays of a run have the same outcome."""
        return (self.verdict, self.causes) == (other.verdict, other.causes)


def unclear(trace_id: str, why: str, text: str, **more: Any) -> RunVerdict:
    """Return the verdict of a run that could not be compared."""
    cause = Cause(kind=why, argument=text.replace(trace_id, "…")[:200])
    return RunVerdict(
        trace_id=trace_id, verdict="inconclusive", causes=(cause,), text=text[:MAX_TEXT], **more
    )


def beside(path: str | Path) -> str:
    """Return where the verdicts of a fleet file are written."""
    return f"{path}{SUFFIX}"


class VerdictWriter:
    """Writer of verdicts."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def add(self, verdict: RunVerdict) -> None:
        """Write one verdict."""
        self._file.write(msgspec.json.encode(verdict) + b"\n")


@contextmanager
def writing(path: str | Path) -> Iterator[VerdictWriter]:
    """Write a file of verdicts that only its owner can read."""
    with whole_file(path, private=True) as file:
        yield VerdictWriter(file)


def read(path: str | Path) -> list[RunVerdict]:
    """Read a file of verdicts.

    Raises:
        VerdictsError: it is missing, too large or no such file.
    """
    try:
        with Path(path).open("rb") as file:
            return list(_read(iter(lambda: file.readline(MAX_LINE + 1), b""), str(path)))
    except OSError as error:
        raise VerdictsError(f"{path} cannot be read: {error.strerror}") from error


def _read(lines: Iterable[bytes], path: str) -> Iterator[RunVerdict]:
    decoder = msgspec.json.Decoder(RunVerdict)
    for number, line in enumerate(lines, 1):
        if number > MAX_RUNS or len(line) > MAX_LINE:
            raise VerdictsError(
                f"{path} is too large: at most {MAX_RUNS} lines of {MAX_LINE} bytes"
            )
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError as error:
            raise VerdictsError(
                f"{path}, line {number}, is no verdict ({error}); `tracereel fleet run` writes them"
            ) from error
