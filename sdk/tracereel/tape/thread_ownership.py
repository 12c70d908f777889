"""Ownership of contexts, threads and pool jobs by a re-execution.

A program may replay a run while it does other work. Other work (another request, a health check)
keeps its network, clock and recorder. Context variables separate tasks. A thread started by
replayed code belongs to the replay although it begins with an empty context, and so does a job
submitted to an existing pool.

Tasks and threads that outlive the replay belong to it for a while longer: their calls are refused,
not made.
"""

import _thread
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import ContextVar, Token
from typing import Any, Final
from weakref import WeakSet

from tracereel._runtime import gevent_compat
from tracereel._runtime.compat import running_loop_or_none
from tracereel.tape.loops import Clock

_FOREIGN: Final = "foreign"
"""Marker of a job that other code submitted to a thread of the replay."""
_here: ContextVar["Members | str"] = ContextVar("tracereel_replay")
_in_force: Final[list["Members"]] = []
_lock: Final = threading.RLock()
_left: Final["WeakSet[Members]"] = WeakSet()
"""Ended re-executions whose tasks or threads may still run; those keep them alive."""
LINGER: Final = 60.0
"""Seconds for which leftover tasks and threads are restricted."""
_OF_THREAD: Final = "_tracereel_replay"
_undo: Final = ExitStack()
"""Restores what `_watch_starts` replaced."""
_real_sleep: Final = time.sleep


class Members:
    """Code, threads and jobs that belong to one re-execution."""

    def __init__(self, clock: Clock, *, skip_sleeps: bool = False) -> None:
        self._clock = clock
        self._skips = skip_sleeps
        self.around: Members | None = None
        """Enclosing re-execution."""
        self._token: Token[Members | str] | None = None
        self._owner: int | None = None
        self._threads: WeakSet[threading.Thread] = WeakSet()
        self._jobs = 0
        self._until = 0.0

    def enter(self) -> None:
        """Claim the current context."""
        self.around = _found()
        self._token = _here.set(self)
        if running_loop_or_none() is None:
            # Without a running loop there are no foreign tasks, so the whole thread belongs to the
            # replay.
            self._owner = threading.get_ident()
        with _lock:
            if not _in_force:
                _watch_starts()
            _in_force.append(self)

    def leave(self, *, hold_back: bool = False) -> bool:
        """Release the context; return whether leftover tasks and threads stay restricted."""
        self._owner = None
        with _lock:
            if self in _in_force:
                _in_force.remove(self)
                if not _in_force:
                    _undo.close()
        token, self._token = self._token, None
        try:
            if token is not None:
                _here.reset(token)
        except ValueError:
            return False  # left in another context than entered, where the program continues
        if hold_back:
            self._until = time.monotonic() + LINGER
            _left.add(self)
        return hold_back

    @property
    def forgotten(self) -> bool:
        """Whether it ended so long ago that leftovers are no longer restricted."""
        return self not in _in_force and time.monotonic() > self._until

    def is_here(self) -> bool:
        """Return whether the calling code belongs to it."""
        found = _found()
        while found is not None and found is not self:
            found = found.around
        return found is self

    def has_threads(self) -> bool:
        """Return whether a thread or pool job other than the first thread is active."""
        return self._jobs > 0 or any(thread.is_alive() for thread in list(self._threads))

    def owns(self, thread: threading.Thread) -> bool:
        """Return whether a thread is the first one or was started by replayed code."""
        return thread.ident == self._owner or thread in self._threads

    def adopt(self, thread: threading.Thread) -> None:
        """Register a thread started by replayed code."""
        self._threads.add(thread)
        setattr(thread, _OF_THREAD, self)

    def sleep(self, seconds: float) -> None:
        """Advance the clock instead of sleeping, unless the run waits in real time."""
        if not self._skips or self._clock.runs:
            _real_sleep(seconds)
            return
        self._clock.skip(float(seconds))
        # Yield briefly, because the caller may be polling another thread.
        _real_sleep(min(float(seconds), 0.0005))

    def job(self, submit: Callable[[], "Future[Any]"]) -> "Future[Any]":
        """Submit a pool job and count it until it ends."""
        with _lock:
            self._jobs += 1
        try:
            future = submit()
        except BaseException:
            self._job_ended()
            raise
        future.add_done_callback(lambda _future: self._job_ended())
        return future

    def _job_ended(self) -> None:
        with _lock:
            self._jobs -= 1


def _found() -> Members | None:
    """Return the innermost re-execution that the calling code belongs to, or `None`."""
    found = _here.get(None)
    if isinstance(found, str):
        return None
    if found in _in_force:
        return found
    if _left and (left := _left_behind(found)) is not None:
        return left
    if not _in_force:
        return None
    thread = threading.current_thread()
    return next((each for each in reversed(_in_force) if each.owns(thread)), None)


def _left_behind(found: Members | None) -> Members | None:
    """Return the ended re-execution that the calling code is left over from, or `None`."""
    left: Members | None = found or getattr(threading.current_thread(), _OF_THREAD, None)
    return left if left is not None and left in _left and not left.forgotten else None


def _bound(members: Members | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it runs as part of the submitter's re-execution."""

    def run(*args: Any, **kwargs: Any) -> Any:
        token = _here.set(members if members is not None else _FOREIGN)
        try:
            return function(*args, **kwargs)
        finally:
            _here.reset(token)

    return run


def _watch_starts() -> None:
    """Patch thread, pool and sleep functions while a re-execution is active."""
    real_start, real_submit = threading.Thread.start, ThreadPoolExecutor.submit
    real_new_thread, real_sleep = _thread.start_new_thread, time.sleep

    def start(thread: threading.Thread) -> None:
        members = _found()
        if members is not None and not isinstance(thread, gevent_compat.OwnThread):
            members.adopt(thread)
        real_start(thread)

    def submit(
        pool: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> "Future[Any]":
        members = _found()
        job = _bound(members, function)
        if members is None:
            return real_submit(pool, job, *args, **kwargs)
        return members.job(lambda: real_submit(pool, job, *args, **kwargs))

    def start_new_thread(function: Callable[..., Any], *rest: Any) -> int:
        members = _found()
        bound = function if members is None else _bound(members, function)
        return real_new_thread(bound, *rest)

    def sleep(seconds: float) -> None:
        members = _found()
        if members is None:
            real_sleep(seconds)
        else:
            members.sleep(seconds)

    replaced: tuple[tuple[Any, Any], ...] = (
        (threading.Thread, start),
        (ThreadPoolExecutor, submit),
        (_thread, start_new_thread),
        (time, sleep),
    )
    for owner, function in replaced:
        name = function.__name__
        _undo.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, function)
