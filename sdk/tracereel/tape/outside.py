"""Watch on what a recorded run does outside of its recorded calls, which a replay would do for real.

An audit hook sees new connections, started programs, files that are opened for writing or changed,
and databases that are opened, by the run or by a thread that it has started without its context;
wrapped `send` methods see data on connections that were open before. Each is a reason why the run is
only partly replayable. Files that were open before the run are not seen, nor are libraries with
their own sockets.
"""

import functools
import os
import socket
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from tracereel._core import context
from tracereel._runtime import compat, gevent_compat, guard
from tracereel.tape import pool_jobs

if TYPE_CHECKING:
    from tracereel._core.context import Execution
    from tracereel.tape.run_tape import RunTape

MAX_FRAMES: Final = 60
MAX_TEXT: Final = 200
MAX_HOSTS: Final = 100
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Final = frozenset(
    f"os.{name}"
    for name in ("remove", "rename", "mkdir", "rmdir", "truncate", "link", "symlink", "chmod")
)
_PROGRAMS: Final = {
    "subprocess.Popen": 0, "os.system": 0, "os.exec": 0, "os.posix_spawn": 0, "os.spawn": 1
}  # fmt: skip
"""Events of started programs, each with the position of the program's name."""
_NETWORK: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_TELEMETRY: Final = (
    "agents.tracing",
    "ddtrace",
    "langsmith",
    "logfire",
    "opentelemetry",
    "sentry_sdk",
)
"""Modules that report about the program; what they send is no part of a run."""
_POOLS: Final = ("asyncio_", "AnyIO")
"""Names of threads that work for any task, each time with the context of that task."""
_TRANSPARENT: Final = (
    "tracereel._core.network_guard",
    "tracereel._core.older_processes",
    "tracereel._core.replay_guard",
    "tracereel._runtime.compat",
    "tracereel.tape.thread_ownership",
    __name__,
)
"""Modules that wrap functions of the standard library for the program."""
_STDLIB: Final = sys.stdlib_module_names

_open: Final[dict[int, "weakref.ref[RunTape]"]] = {}
"""Tapes of the runs that are being recorded."""
_hosts: Final[dict[int, set[str]]] = {}
"""Hosts that the runs are known to use outside of recorded calls."""
_threads: Final["weakref.WeakKeyDictionary[threading.Thread, weakref.ref[RunTape]]"] = (
    weakref.WeakKeyDictionary()
)
"""Threads that a run has started outside of its recorded calls."""


def watch(tape: "RunTape") -> None:
    """Watch the run of a tape until it is closed or gone."""
    _install_hook()
    if (ssl := sys.modules.get("ssl")) is not None:
        _watch_sends(ssl.SSLSocket)
    for kind, name in compat.worker_pools():
        _watch_jobs_of_processes(kind, name)
    key = id(tape)
    _hosts[key] = set()
    _open[key] = weakref.ref(tape, lambda _gone: _forget(key))


def unwatch(tape: "RunTape") -> None:
    """Stop watching a run."""
    _forget(id(tape))


def _forget(key: int) -> None:
    _open.pop(key, None)
    _hosts.pop(key, None)


def began_apart(execution: "Execution") -> None:
    """Note that a thread of an open run has begun a run of its own, because it has no context."""
    tape = _tape_of_thread()
    if tape is not None:
        thread = threading.current_thread().name
        _add(
            tape,
            f"{execution.kind} {execution.name}, in thread {thread}, which has no context of the run",
        )


@functools.cache
def _install_hook() -> None:
    """Install the audit hook of the process; hooks cannot be removed."""

    def see(event: str, args: tuple[Any, ...]) -> None:
        if not _open:
            return
        try:
            _see(event, args)
        except Exception as error:  # noqa: BLE001 - what a hook raises would reach the program
            guard.report("tape", error)

    sys.addaudithook(see)
    _watch_starts()
    _watch_jobs()
    _watch_sends(socket.socket)
    compat.before_new_processes(_process_started)
    os.register_at_fork(after_in_child=_open.clear)


def _see(event: str, args: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = args
        if flags & _WRITES and not isinstance(path, int):
            _note("a file is written", path)
    elif event in _NETWORK:
        if args[1] is not None:
            _used(_host(args[1]))
        else:
            _sent(args[0])
    elif event in _PROGRAMS:
        name = args[_PROGRAMS[event]]
        _note("a program is started", name if name is not None else args[1])
    elif event == "os.fork":
        _note("a process is forked", "")
    elif event == "sqlite3.connect":
        if args[0] not in (":memory:", b":memory:", ""):
            _note("a database is opened", args[0])
    elif event in _CHANGES:
        _note("a file is changed", args[0])


def _used(host: Any) -> None:
    tape = _tape_here()
    known = _hosts.get(id(tape))
    if known is not None and len(known) < MAX_HOSTS:
        known.add(str(host))
    _note("the network is used", host)


def _host(address: Any) -> Any:
    return address[0] if isinstance(address, tuple) else address


@functools.cache
def _watch_sends(kind: type) -> None:
    """See data that is sent on open connections."""
    for name in ("send", "sendall", "write"):
        if hasattr(kind, name):
            setattr(kind, name, _sending(getattr(kind, name)))


def _sending(real: Any) -> Any:
    @functools.wraps(real)
    def send(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _open:
            with guard.Guard("tape"):
                _sent(self)
        return real(self, *args, **kwargs)

    return send


def _sent(sock: Any) -> None:
    """Note data on a connection, unless the run is known to use its host."""
    tape = _tape_here()
    if tape is None:
        return
    try:
        host = str(_host(sock.getpeername()))
    except OSError:
        return  # it is not connected: sending fails by itself
    # Both ends of a `socketpair` have no name.
    if host and host not in _hosts.get(id(tape), ()):
        _used(host)


def _watch_starts() -> None:
    """Remember the threads that runs start; Python 3.11 has no audit event for them."""
    real = threading.Thread.start

    @functools.wraps(real)
    def start(self: threading.Thread) -> None:
        if _open:
            with guard.Guard("tape"):
                _started(self)
        real(self)

    threading.Thread.start = start  # type: ignore[method-assign]


def _watch_jobs() -> None:
    """Remember the jobs that runs give to pools."""
    real: Any = ThreadPoolExecutor.submit

    @functools.wraps(real)
    def submit(self: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        tape = _tape_here() if _open else None
        if tape is not None:
            function = pool_jobs.PoolJob(tape).of(function)
        return real(self, function, *args, **kwargs)

    ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]


@functools.cache
def _watch_jobs_of_processes(kind: type, name: str) -> None:
    """Note work that runs hand to other processes, whose calls are not on the tape."""
    real = getattr(kind, name)

    @functools.wraps(real)
    def hand_over(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _open:
            with guard.Guard("tape"):
                _note("work is handed to a process", type(self).__name__)
        return real(self, *args, **kwargs)

    setattr(kind, name, hand_over)


def _process_started() -> None:
    if _open:
        with guard.Guard("tape"):
            _note("a process is started", "")


def _started(thread: threading.Thread) -> None:
    if isinstance(thread, gevent_compat.OwnThread):
        return
    tape = _tape_here()
    module = (
        getattr(getattr(thread, "_target", None), "__module__", None) or type(thread).__module__
    )
    if (
        tape is not None
        and not thread.name.startswith(_POOLS)
        and not module.startswith(_TELEMETRY)
    ):
        _threads[thread] = weakref.ref(tape)


def _note(what: str, name: Any) -> None:
    tape = _tape_here()
    if tape is None:
        return
    if isinstance(name, (list, tuple)):
        name = name[0] if name else ""
    text = os.fsdecode(name) if isinstance(name, (str, bytes, os.PathLike)) else str(name)
    if text.startswith(("/dev/", "/proc/")):
        return
    place = _place()
    if place is not None:
        _add(tape, f"{what}{f': {text[:MAX_TEXT]}' if text else ''} ({place})")


def _add(tape: "RunTape", text: str) -> None:
    if tape.privacy is not None:
        text = tape.privacy.text(text)
    tape.problem("partly", f"outside of recorded calls: {text}", outside=True)


def _tape_here() -> "RunTape | None":
    """Return the open tape of the calling code, unless it is inside of a recorded call."""
    execution = context.current.get()
    if execution is None:
        return _tape_of_thread()
    tape = _opened(execution.trace.tape)
    if tape is None:
        return None
    around: Execution | None = execution
    while around is not None and around.trace is execution.trace:
        node = getattr(around, "tape", None)
        if node is not None:
            return None if node.inside or node.bare else tape
        around = around.parent
    return None if tape.root.bare else tape


def _tape_of_thread() -> "RunTape | None":
    """Return the open tape of the run that started this thread.

    While a recorded call is open, the thread may work for that.
    """
    job = pool_jobs.current()
    known = job.tape if job is not None else _threads.get(threading.current_thread())
    tape = known() if known is not None else None
    return None if tape is None or tape.open_calls else _opened(tape)


def _opened(tape: Any) -> "RunTape | None":
    known = _open.get(id(tape))
    return known() if known is not None else None


def _place() -> str | None:
    """Return the program's line that leads here; `None` if it is not the program's doing."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to get caller frames
    library: str | None = None
    for _ in range(MAX_FRAMES):
        if frame is None:
            break
        module = str(frame.f_globals.get("__name__"))
        top = module.partition(".")[0]
        if module == "platform" or module.startswith(("importlib.", *_TELEMETRY)):
            return None  # clients ask `uname` once for a header
        if module in _TRANSPARENT:
            frame = frame.f_back
            continue
        if top == "tracereel" and not module.startswith("tracereel.demo"):
            return library  # without any other module it is the SDK itself
        if top not in _STDLIB:
            library = library or f"{module}:{frame.f_lineno}"
            if "site-packages" not in frame.f_code.co_filename:
                return f"{module}:{frame.f_lineno}"
        frame = frame.f_back
    return library or "?"
