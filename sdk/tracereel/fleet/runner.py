"""Runs a fleet file in worker processes: against a working tree, and a baseline if there is one."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol, Self

import msgspec

from tracereel.errors import TracereelError
from tracereel.fleet import frames
from tracereel.fleet.file import FleetRun
from tracereel.fleet.frames import ExchangeError, SilentError
from tracereel.fleet.verdicts import MAX_LINE, RunVerdict, unclear
from tracereel.fleet.worker import WorkerSettings

_COMMAND: Final = (sys.executable, "-m", "tracereel.fleet.worker")
_START_SECONDS: Final = 60.0
"""Time for the import of the program, beside that of a run."""
_ONE_THREAD: Final = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
"""Native libraries start no threads: the workers use the processors already."""
MAX_STDERR: Final = 2_000


class FleetRunError(TracereelError):
    """The workers cannot be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """How a fleet file is run."""

    root: Path
    """Working tree."""
    baseline: Path | None = None
    """The same tree at another revision."""
    processes: int = 2
    seconds: float = 60.0
    """Time limit of a run."""
    repeats: int = 2
    """How often a run that is not `same` is executed."""
    copied: tuple[str, ...] = ()
    search: tuple[Path, ...] = ()
    """Folders that modules are searched in first."""


Finished = Callable[[RunVerdict], None]
"""Callback that receives each verdict; from several threads, one at a time."""


class RecordedRuns(Protocol):
    """Source of runs: a fleet file, or a set of runs."""

    @property
    def total(self) -> int:
        """Number of runs."""
        ...

    def runs(self) -> Iterator[FleetRun]:
        """Yield the runs."""
        ...


def run_all(source: RecordedRuns, settings: FleetSettings, finished: Finished) -> None:
    """Execute every run of a source.

    Raises:
        FleetRunError: a worker cannot be started.
    """
    runs = _SharedRuns(source.runs())
    lock, errors = threading.Lock(), list[BaseException]()

    def serve() -> None:
        try:
            with _Lane(settings) as lane:
                while (run := runs.next()) is not None:
                    verdict = lane.verdict(run)
                    with lock:
                        finished(verdict)
        except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
            errors.append(error)
            runs.stop()

    threads = [
        threading.Thread(target=serve, name=f"fleet {number}", daemon=True)
        for number in range(max(1, min(settings.processes, source.total)))
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        runs.stop()
    if errors:
        raise errors[0]


class _SharedRuns:
    """Runs of a file, handed to one thread at a time."""

    def __init__(self, runs: Iterator[FleetRun]) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._stopped = False

    def next(self) -> FleetRun | None:
        with self._lock:
            return None if self._stopped else next(self._runs, None)

    def stop(self) -> None:
        self._stopped = True


class _Lane:
    """A worker for the candidate, and one for the baseline."""

    def __init__(self, settings: FleetSettings) -> None:
        self._repeats = settings.repeats
        self._candidate = Worker(settings, settings.root)
        self._baseline = None if settings.baseline is None else Worker(settings, settings.baseline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._candidate.close()
        if self._baseline is not None:
            self._baseline.close()

    def verdict(self, run: FleetRun) -> RunVerdict:
        """Return the verdict of a run."""
        if self._baseline is not None:
            before = self._repeated(self._baseline, run)
            if before.verdict != "same" or before.flaky:
                return _lost(before)
        return self._repeated(self._candidate, run)

    def _repeated(self, worker: "Worker", run: FleetRun) -> RunVerdict:
        """Execute a run again if it is not `same`, to find out whether it is flaky."""
        first = worker.run(run)
        if first.verdict == "same":
            return first
        for _ in range(self._repeats - 1):
            again = worker.run(run)
            if not first.alike(again):
                return msgspec.structs.replace(first, flaky=(first.verdict, again.verdict))
        return first


def _lost(before: RunVerdict) -> RunVerdict:
    """Return the verdict of a run that the baseline cannot repeat: lost coverage, no difference."""
    if before.flaky:
        return before
    causes = tuple(
        msgspec.structs.replace(each, kind=f"baseline {each.kind}") for each in before.causes
    )
    return msgspec.structs.replace(before, verdict="inconclusive", causes=causes)


class Worker:
    """Worker process; it is replaced if it dies."""

    def __init__(self, settings: FleetSettings, root: Path) -> None:
        self._scratch = tempfile.TemporaryDirectory(
            prefix="tracereel-fleet-", ignore_cleanup_errors=True
        )
        self._settings = WorkerSettings(
            root=str(root),
            scratch=self._scratch.name,
            moved_from="" if root == settings.root else str(settings.root),
            seconds=settings.seconds,
            copied=settings.copied,
        )
        search = [*map(str, settings.search), os.environ.get("PYTHONPATH", "")]
        # The files of a revision change too fast for the times that bytecode has.
        self._environ = {**os.environ, **_ONE_THREAD, "PYTHONDONTWRITEBYTECODE": "1"}
        self._environ["PYTHONPATH"] = os.pathsep.join(filter(None, search))
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`

    def run(self, run: FleetRun) -> RunVerdict:
        """Return the verdict of a run."""
        try:
            process = self._started()
            assert process.stdin is not None  # noqa: S101 - pipes were asked for
            assert process.stdout is not None  # noqa: S101
            frames.send(process.stdin.fileno(), run.job())
            limit = self._settings.seconds + _START_SECONDS
            data = frames.receive(process.stdout.fileno(), seconds=limit, most=MAX_LINE)
        except SilentError:
            self._end()
            text = f"importing the program took longer than {_START_SECONDS:g} s"
            return unclear(run.trace_id, "time limit", text)
        except ExchangeError as error:
            self._end()
            return unclear(run.trace_id, "died", f"the worker process died: {error}")
        if data is None:
            why = self._end()
            text = f"the worker process ended while it imported the program {why}".strip()
            return unclear(run.trace_id, "died", text)
        return msgspec.json.decode(data, type=RunVerdict)

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own module
                    _COMMAND,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    cwd=self._settings.root,
                    env=self._environ,
                    start_new_session=True,
                )
            except OSError as error:
                raise FleetRunError(f"no worker process can be started: {error}") from error
            assert self._process.stdin is not None  # noqa: S101
            frames.send(self._process.stdin.fileno(), msgspec.json.encode(self._settings))
        return self._process

    def _end(self) -> str:
        """End the process; return the last lines of its stderr."""
        process, self._process = self._process, None
        if process is None:
            return ""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - MAX_STDERR))
        return self._errors.read().decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End the process and remove its folder."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
        self._end()
        self._errors.close()
        self._scratch.cleanup()
