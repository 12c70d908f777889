"""Process-wide guard of the commands that replay runs: no tool with side effects, no network.

A replay serves calls in the code that it knows. This guard covers the rest of the process: threads
that were started before or take work from a queue, calls inside of other calls, code at exit, and,
through an environment variable, child processes of every kind. A tool above `read` that is not
served is refused there unless it is allowed by name.

Refusals and divergences are written to a file that the whole family of processes shares, so that
the report has them.
"""

import atexit
import functools
import json
import os
import re
import sys
import threading
import time
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tracereel._core import framework_tools, network_guard, older_processes
from tracereel._runtime import compat, gevent_compat
from tracereel.errors import NetworkBlockedError, NotAllowedError

if TYPE_CHECKING:
    from tracereel._core.context import Execution

VARIABLE: Final = "TRACEREEL_REPLAY_GUARD"
"""Environment variable by which child processes get the guard."""
HARMLESS: Final = ("pure", "read")
UNDECLARED: Final = "no effect, so it may write"
LINGER: Final = 60.0
"""Seconds for which threads that the guarded code left behind stay guarded."""
MAX_NOTED: Final = 100
"""Records that a process adds to the shared file."""
_CHILDREN: Final = {
    "subprocess.Popen": 3,
    "os.exec": 2,
    "os.posix_spawn": 2,
    "os.spawn": 3,
    "os.system": None,
}
"""Audit events of new programs, and the position of their environment."""
_NUMBER: Final = re.compile(r" #\d+$")
"""Number of a repeated call in a path."""
_POPEN_ENV: Final = 10
"""Number of positional arguments of `Popen` before its environment."""


def changes_something(kind: str, effect: str) -> bool:
    """Return whether a call may have side effects; a tool without a declared effect may."""
    return effect not in HARMLESS if kind == "tool" else effect in ("write", "irreversible")


@dataclass(frozen=True, slots=True, eq=False)
class ReplayGuard:
    """Permissions of the processes of a replay, and the file of their refusals."""

    allowed: frozenset[str] = frozenset()
    """Names of tools that may run."""
    hosts: frozenset[str] | None = frozenset()
    """Hosts that may be reached; `None` for all."""
    file: str = ""
    _noted: list[None] = field(default_factory=list)

    def environment(self) -> str:
        """Return the value of the environment variable."""
        hosts = None if self.hosts is None else sorted(self.hosts)
        return json.dumps({"allow": sorted(self.allowed), "hosts": hosts, "file": self.file})

    def note(self, record: dict[str, Any]) -> None:
        """Add a record to the shared file."""
        self._noted.append(None)
        if not self.file or len(self._noted) > MAX_NOTED:
            return
        line = json.dumps({"pid": os.getpid(), **record}, default=str) + "\n"
        try:
            target = os.open(self.file, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(target, line.encode())
            finally:
                os.close(target)
        except OSError:
            pass  # the command that started this process has ended

    def noted(self) -> list[dict[str, Any]]:
        """Return the records of all processes."""
        try:
            lines = Path(self.file).read_text(encoding="utf-8").splitlines()
        except OSError:
            return []
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue  # a process was killed while it wrote
        return found


active: ReplayGuard | None = None
"""Guard of this process; usually none, which callers check first."""
engaged = False
"""Whether this process has ever had a guard; calls check this first."""
_left: Final[dict[int, tuple[ReplayGuard, float]]] = {}
"""Threads that outlived their guard, by id."""
_started: Final[dict[int | None, ReplayGuard]] = {}
"""Processes that were started under an earlier guard, by id."""
_exempt: ContextVar[bool] = ContextVar("tracereel_not_guarded", default=False)


def here() -> ReplayGuard | None:
    """Return the guard of the calling thread."""
    if active is not None:
        return active
    if _left and (found := _left.get(threading.get_ident())) is not None:
        if time.monotonic() < found[1]:
            return found[0]
        _left.pop(threading.get_ident(), None)
    return None


def watches() -> bool:
    """Return whether any code of this process is guarded."""
    return active is not None or bool(_left)


def check_tool(kind: str, name: str, effect: str, around: "Execution | None") -> None:
    """Refuse a call with side effects, unless it or a tool around it is allowed by name.

    Raises:
        NotAllowedError: it is refused.
    """
    guard = here()
    if (
        guard is None
        or not changes_something(kind, effect)
        or is_allowed(guard.allowed, name, around)
    ):
        return
    text = refusal(name, effect)
    guard.note({"refused": text, "name": name, "thread": threading.current_thread().name})
    raise NotAllowedError(text)


def refusal(path: str, effect: str) -> str:
    """Return the message of a refused call."""
    name = _NUMBER.sub("", path.rpartition(" / ")[2])
    return (
        f"{path} would run for real (it declares {effect or UNDECLARED});"
        f" allow it by name (allow=[{name!r}], --allow {name}), or say what it gives"
        f" (Override({name!r}, result=…), --result {name}=JSON)"
    )


def is_allowed(allowed: Container[str], name: str, around: "Execution | None") -> bool:
    """Return whether a tool, or a tool around the call, is allowed by name."""
    if name in allowed:
        return True
    while around is not None:
        if around.kind == "tool" and around.name in allowed:
            return True
        around = around.parent
    return False


@contextmanager
def exempt() -> Iterator[None]:
    """Let the command's own code use the network."""
    token = _exempt.set(True)
    try:
        yield
    finally:
        _exempt.reset(token)


def check_host(host: str) -> None:
    """Refuse the use of a host.

    Raises:
        NetworkBlockedError: it is refused.
    """
    guard = here()
    if guard is None or guard.hosts is None or _exempt.get():
        return
    if network_guard.is_allowed(host, guard.hosts):
        return
    if isinstance(threading.current_thread(), gevent_compat.OwnThread):
        return
    guard.note({"network": host, "thread": threading.current_thread().name})
    raise blocked(host)


def blocked(host: str) -> NetworkBlockedError:
    """Return the error of a refused host."""
    return NetworkBlockedError(
        f"a replay does not use the network; it was asked for {host!r}."
        f" Put the call behind a traced tool, or allow it: allow_network=[{host!r}]"
    )


@contextmanager
def installed(
    *, allow: Iterable[str] = (), hosts: Iterable[str] | None = (), stays: bool = False
) -> Iterator[ReplayGuard]:
    """Guard this process and the processes that it starts.

    Args:
        allow: names of tools that may run although they have side effects.
        hosts: hosts that may be reached; `None` for all.
        stays: whether the guard stays until the process ends, for commands.
    """
    global active, engaged
    import tempfile  # slow to import, and only commands need it

    descriptor, file = tempfile.mkstemp(prefix="tracereel-replay-")
    os.close(descriptor)
    guard = ReplayGuard(frozenset(allow), None if hosts is None else frozenset(hosts), file)
    before, variable = active, os.environ.get(VARIABLE)
    threads = {thread.ident for thread in threading.enumerate()}
    active, engaged = guard, True
    os.environ[VARIABLE] = guard.environment()
    _install_hooks()
    network_guard.watch(check_host)
    framework_tools.install()
    framework_tools.watch_imports(watches)
    running = older_processes.children()
    older = older_processes.watch(_refuse_older, guarded=_has_guard(before, guard, running))
    try:
        yield guard
    finally:
        if not stays:
            older.close()
            _started.update(dict.fromkeys(older_processes.children() - running, guard))
            framework_tools.stop_watching(watches)
            network_guard.unwatch(check_host)
            active = before
            if variable is None:
                os.environ.pop(VARIABLE, None)
            else:
                os.environ[VARIABLE] = variable
            _leave_behind(guard, threads)
        Path(file).unlink(missing_ok=True)


def _has_guard(
    around: ReplayGuard | None, guard: ReplayGuard, running: set[int | None]
) -> set[int | None]:
    """Return the running processes that have a guard which allows no more than a new one."""
    for each in _started.keys() - running:
        del _started[each]
    if around is not None:
        return running
    return {
        pid
        for pid, known in _started.items()
        if known.allowed <= guard.allowed and known.hosts == guard.hosts
    }


def _refuse_older(name: str) -> None:
    """Refuse work for a process that was started before the guard.

    Raises:
        NotAllowedError: it is refused.
    """
    guard = here()
    if guard is None:
        return
    text = (
        f"a {name} would hand work to a process that was started before the replay, where tools run"
        " for real; start the process inside of the run"
    )
    guard.note({"refused": text, "name": name, "thread": threading.current_thread().name})
    raise NotAllowedError(text)


def _leave_behind(guard: ReplayGuard, known: set[int | None]) -> None:
    """Keep the guard in threads that the guarded code has left running."""
    until = time.monotonic() + LINGER
    for ident, (_, end) in list(_left.items()):
        if end < time.monotonic():
            _left.pop(ident, None)
    for thread in threading.enumerate():
        own = isinstance(thread, gevent_compat.OwnThread)
        if thread.ident is not None and thread.ident not in known and not own:
            _left[thread.ident] = guard, until


@functools.cache
def _install_hooks() -> None:
    """Install the audit hook of the process, which cannot be removed, and watch new programs."""
    # At the end of the interpreter globals are None, and the hook is still called.
    children, watched = _CHILDREN, watches

    def check(event: str, args: tuple[Any, ...]) -> None:
        if event in children and watched():
            position = children[event]
            environment = None if position is None else args[position]
            if environment is None:
                _keep_variable()
            else:
                _check_environment(environment)

    import subprocess  # slow to import, and only guarded processes need it

    sys.addaudithook(check)
    compat.before_new_processes(_keep_variable)
    real = subprocess.Popen.__init__

    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        guard = here()
        if guard is not None and len(args) <= _POPEN_ENV:
            # A program that is started with an environment of its own gets the guard too.
            given = os.environ if kwargs.get("env") is None else kwargs["env"]
            kwargs["env"] = {**given, VARIABLE: guard.environment()}
        real(self, *args, **kwargs)

    subprocess.Popen.__init__ = start  # type: ignore[method-assign]
    register = atexit.register

    def at_exit(function: Any, /, *args: Any, **kwargs: Any) -> Any:
        guard = here()
        register(function if guard is None else _guarded(guard, function), *args, **kwargs)
        return function

    atexit.register = at_exit


def _guarded(guard: ReplayGuard, function: Any) -> Any:
    """Wrap a function that guarded code leaves behind for the exit of the process."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        me = threading.get_ident()
        _left[me] = guard, time.monotonic() + LINGER
        try:
            return function(*args, **kwargs)
        finally:
            _left.pop(me, None)

    return run


def _keep_variable() -> None:
    """Set the variable again for a child, if the program has cleared its environment."""
    guard = here()
    if guard is not None and VARIABLE not in os.environ:
        os.environ[VARIABLE] = guard.environment()


def _check_environment(environment: Any) -> None:
    if here() is not None and VARIABLE not in environment and VARIABLE.encode() not in environment:
        raise NotAllowedError(
            "a program would be started with an environment that does not have"
            f" {VARIABLE}, so that its tools would run for real"
        )


def _inherit() -> None:
    """Take over the guard of the process that started this one."""
    global active, engaged
    given = os.environ.get(VARIABLE)
    if given is None:
        return
    engaged = True
    try:
        inherited = json.loads(given)
        hosts = inherited["hosts"]
        active = ReplayGuard(
            frozenset(inherited["allow"]),
            None if hosts is None else frozenset(hosts),
            str(inherited["file"]),
        )
    except (ValueError, KeyError, TypeError):
        active = ReplayGuard()  # deny everything
    _install_hooks()
    network_guard.watch(check_host)
    framework_tools.watch_imports(watches)


_inherit()
