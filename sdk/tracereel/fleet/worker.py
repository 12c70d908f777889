"""Worker process of a fleet replay: imports the program once and forks for each run.

It reads its settings and then runs from standard input, and answers each with a verdict. While the
process has one thread, a run is executed in a forked child. A program whose import leaves threads
running cannot be forked safely: then each run has a fresh process, and the verdict names what left
the threads. Runs have a directory of their own, a time limit and no network.

Run as `python -m tracereel.fleet.worker`.
"""

import contextlib
import ctypes
import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from tracereel._core import replay_guard
from tracereel._runtime import gevent_compat
from tracereel.fleet import frames, tokenizers
from tracereel.fleet.execution import described, execute, prepare
from tracereel.fleet.file import FleetRun
from tracereel.fleet.frames import ExchangeError, SilentError
from tracereel.fleet.source import missed_modules, relocate
from tracereel.fleet.verdicts import MAX_LINE, RunVerdict, unclear
from tracereel.tape import isolation
from tracereel.tape.format import Tape, TapeError

_COMMAND: Final = (sys.executable, "-m", "tracereel.fleet.worker")
_TASKS: Final = Path("/proc/self/task")
_SET_DEATH_SIGNAL: Final = 1


class WorkerSettings(msgspec.Struct, kw_only=True):
    """Settings of a worker."""

    root: str
    """Working tree whose code runs."""
    moved_from: str = ""
    """Working tree that `root` is another revision of."""
    scratch: str
    """Folder for temporary files; the process that started this one removes it."""
    seconds: float
    copied: tuple[str, ...] = ()
    """Files and folders of the working tree that each run finds in its directory."""
    once: bool = False
    """Whether to execute one run in this process."""
    network: str | None = None
    """Why the network could not be left; `None` if it was not tried yet."""


def main() -> None:
    """Serve runs until the input ends."""
    jobs, answers = _own_streams()
    first = frames.receive(jobs)
    if first is None:
        return
    settings = msgspec.json.decode(first, type=WorkerSettings)
    network = isolation.leave_network() if settings.network is None else settings.network
    if settings.once:
        _end_with_parent()
    os.chdir(settings.root)
    relocate(settings.root, settings.moved_from)
    tokenizers.keep_cache_place()
    os.environ["TMPDIR"] = tempfile.tempdir = settings.scratch
    # What the program configures must not deliver what earlier processes left behind.
    os.environ["TRACEREEL_SPOOL_DIR"] = str(Path(settings.scratch, "spool"))
    worker = _Worker(settings, network)
    try:
        with replay_guard.installed(stays=True):
            while (job := frames.receive(jobs)) is not None:
                frames.send(answers, msgspec.json.encode(worker.run(job)))
                if settings.once:
                    break
    except ExchangeError:
        pass  # the command has ended
    finally:
        # Threads and exit hooks of the program have nothing left to do.
        os._exit(0)


def _own_streams() -> tuple[int, int]:
    """Take the streams away from the program, which may read and print."""
    jobs, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    return jobs, answers


class _Worker:
    """Executes runs one after the other."""

    def __init__(self, settings: WorkerSettings, network: str) -> None:
        self._settings = settings
        self._network = network
        self._culprit = ""
        self._frozen = False

    def run(self, job: bytes) -> RunVerdict:
        """Return the verdict of one run."""
        given = msgspec.json.decode(job, type=FleetRun)
        before = _cpu_seconds()
        try:
            tape = given.tape()
        except TapeError as error:
            return unclear(given.trace_id, "not replayable", str(error))
        about = described(tape) | {"trace_id": given.trace_id}
        try:
            self._prepare(tape)
        except TapeError as error:
            return unclear(about.pop("trace_id"), "not replayable", str(error), **about)
        made = self._executed(given, tape, about)
        # Processes that are forked for later runs have the tokenizers.
        tokenizers.load(each.model for each in made.prompts)
        return msgspec.structs.replace(
            made,
            trace_id=given.trace_id,
            network=self._network,
            culprit=self._culprit,
            cpu_seconds=round(_cpu_seconds() - before, 4),
        )

    def _prepare(self, tape: Tape) -> None:
        known = set(sys.modules)
        try:
            prepare(tape)
        except SystemExit as error:
            raise TapeError(f"the program ends while it is imported: {error}") from error
        root, moved_from = self._settings.root, self._settings.moved_from
        if missed := missed_modules(set(sys.modules) - known, root, moved_from):
            raise TapeError(f"{missed} comes from {moved_from}, not from the other revision")
        if not self._frozen:
            # The collector of forked runs does not visit, and so not copy, what is here already.
            gc.collect()
            gc.freeze()
            self._frozen = True
        if not self._culprit and (threads := _threads()):
            module = str(tape.header.get("entry")).partition(":")[0]
            self._culprit = f"importing {module} leaves {threads} running"

    def _executed(self, given: FleetRun, tape: Tape, about: dict[str, Any]) -> RunVerdict:
        folder = tempfile.mkdtemp(dir=self._settings.scratch)
        try:
            _copy(self._settings, folder)
            if self._settings.once:
                return self._here(tape, folder)
            if self._culprit:
                return self._in_fresh_process(given, folder, about)
            return self._in_fork(tape, folder, about)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _here(self, tape: Tape, folder: str) -> RunVerdict:
        seconds = self._settings.seconds
        return execute(tape, folder, root=self._settings.root, stall_seconds=min(10.0, seconds / 2))

    def _in_fork(self, tape: Tape, folder: str, about: dict[str, Any]) -> RunVerdict:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.setsid()
                _end_with_parent()
                os.close(reading)
                frames.send(writing, msgspec.json.encode(self._here(tape, folder)))
            finally:
                os._exit(0)
        os.close(writing)
        try:
            made = self._received(reading, about)
        finally:
            os.close(reading)
            _kill(child)
            os.waitpid(child, 0)
        return msgspec.structs.replace(made, process="fork")

    def _in_fresh_process(self, given: FleetRun, folder: str, about: dict[str, Any]) -> RunVerdict:
        settings = msgspec.structs.replace(
            self._settings, once=True, network=self._network, scratch=folder
        )
        process = subprocess.Popen(  # noqa: S603 - our own module
            _COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self._settings.root,
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - pipes were asked for
        assert process.stdout is not None  # noqa: S101
        try:
            with contextlib.suppress(ExchangeError):
                frames.send(process.stdin.fileno(), msgspec.json.encode(settings))
                frames.send(process.stdin.fileno(), given.job())
            made = self._received(process.stdout.fileno(), about)
        finally:
            _kill(process.pid)
            process.wait()
            process.stdin.close()
            process.stdout.close()
        return msgspec.structs.replace(made, process="fresh")

    def _received(self, descriptor: int, about: dict[str, Any]) -> RunVerdict:
        """Receive the verdict of a child."""
        more = dict(about)
        trace_id = more.pop("trace_id")
        try:
            data = frames.receive(descriptor, seconds=self._settings.seconds, most=MAX_LINE)
        except SilentError:
            text = f"the run took longer than {self._settings.seconds:g} s (--time-limit)"
            return unclear(trace_id, "time limit", text, **more)
        except ExchangeError as error:
            return unclear(trace_id, "died", str(error), **more)
        if data is None:
            text = "the process of the run ended before the run did"
            return unclear(trace_id, "died", text, **more)
        return msgspec.json.decode(data, type=RunVerdict)


def _threads() -> str:
    """Name the threads of this process besides its main one and those of tracereel."""
    mine = threading.main_thread()
    own = [each for each in threading.enumerate() if isinstance(each, gevent_compat.OwnThread)]
    others = [each for each in threading.enumerate() if each is not mine and each not in own]
    names = ", ".join(sorted(each.name for each in others)[:5])
    found = [f"the threads {names}"] if names else []
    if _TASKS.is_dir():
        native = len(list(_TASKS.iterdir())) - 1 - len(own) - len(others)
        found += [f"{native} threads of native libraries"] if native > 0 else []
    return " and ".join(found)


def _copy(settings: WorkerSettings, folder: str) -> None:
    """Copy the named files of the working tree into the directory of a run."""
    for name in settings.copied:
        source, target = Path(settings.root, name), Path(folder, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copy2(source, target)


def _kill(child: int) -> None:
    """End a child and its own children."""
    for end in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(child, signal.SIGKILL)


def _end_with_parent() -> None:
    """Let the kernel kill this process when the one that started it is gone."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _cpu_seconds() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + spent.ru_utime + spent.ru_stime


if __name__ == "__main__":
    main()
