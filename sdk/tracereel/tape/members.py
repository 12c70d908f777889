"""What belongs to a re-execution: code in its context, and the threads and pool jobs started from there.

A program may replay a run while it does other work. Whatever is not the replay's (another request, a
health check) keeps its network, its clock and its recorder. Context variables tell tasks apart; a thread
that the replayed code starts belongs to it even though it begins with an empty context, and so does a job
that it hands to a pool of threads which was there before.

What is left of it when it has ended, a task or thread that goes on, belongs to it for a while longer: what
it would call is refused, not called for real.
"""

import _thread
import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, Token
from typing import Any, Final
from weakref import WeakSet

from tracereel import _native
from tracereel.tape.loops import Clock
from tracereel.tape.patches import Patches

_NOBODY: Final = "nobody"
"""Said of a job that somebody else has given to a thread of the replay's."""
_here: ContextVar["Members | str"] = ContextVar("tracereel_replay")
_in_force: Final[list["Members"]] = []
_lock: Final = threading.RLock()
_left: Final["WeakSet[Members]"] = WeakSet()
"""Those that have ended and may have left something behind; their tasks and threads keep them alive."""
LINGER: Final = 60.0
"""Seconds for which what was left behind is still held back."""
_OF_THREAD: Final = "_tracereel_replay"
_patches: Final = Patches()
_real_sleep: Final = time.sleep


class Members:
    """Who belongs to one re-execution."""

    def __init__(self, clock: Clock, *, skip_sleeps: bool = False) -> None:
        self._clock = clock
        self._skips = skip_sleeps
        self.around: Members | None = None
        """The re-execution that this one happens in."""
        self._token: Token[Members | str] | None = None
        self._owner: int | None = None
        self._threads: WeakSet[threading.Thread] = WeakSet()
        self._jobs = 0
        self._until = 0.0

    def enter(self) -> None:
        """From here on, who runs in this context belongs to it."""
        self.around = _found()
        self._token = _here.set(self)
        if not _in_a_loop():
            # No loop runs other people's tasks in this thread: all that happens in it is ours.
            self._owner = threading.get_ident()
        with _lock:
            if not _in_force:
                _watch_starts()
            _in_force.append(self)

    def leave(self, *, hold_back: bool = False) -> bool:
        """It is over; gives whether what it leaves behind is held back, as asked for."""
        self._owner = None
        with _lock:
            if self in _in_force:
                _in_force.remove(self)
                if not _in_force:
                    _patches.undo()
        token, self._token = self._token, None
        try:
            if token is not None:
                _here.reset(token)
        except ValueError:
            return False  # left in another context than entered, where the program goes on
        if hold_back:
            self._until = time.monotonic() + LINGER
            _left.add(self)
        return hold_back

    @property
    def forgotten(self) -> bool:
        """Whether it has ended so long ago that nobody is held back any more."""
        return self not in _in_force and time.monotonic() > self._until

    def is_here(self) -> bool:
        """Whether the code that asks belongs to it."""
        found = _found()
        while found is not None and found is not self:
            found = found.around
        return found is self

    def has_threads(self) -> bool:
        """Whether a thread beside the first works for it, or might."""
        return self._jobs > 0 or any(thread.is_alive() for thread in list(self._threads))

    def owns(self, thread: threading.Thread) -> bool:
        """Whether a thread is the first one, or was started from within."""
        return thread.ident == self._owner or thread in self._threads

    def adopt(self, thread: threading.Thread) -> None:
        """A thread was started from within."""
        self._threads.add(thread)
        setattr(thread, _OF_THREAD, self)

    def sleep(self, seconds: float) -> None:
        """`time.sleep` of the replayed code."""
        if not self._skips or self._clock.runs:
            _real_sleep(seconds)
            return
        self._clock.skip(float(seconds))
        # Whoever waits for a thread that way gives it a moment.
        _real_sleep(min(float(seconds), 0.0005))

    def job(self, submit: Callable[[], "Future[Any]"]) -> "Future[Any]":
        """Something is handed to a pool from within."""
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
    """The innermost re-execution that the code which asks belongs to."""
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
    """The re-execution that has ended and left the code behind which asks."""
    left: Members | None = found or getattr(threading.current_thread(), _OF_THREAD, None)
    return left if left is not None and left in _left and not left.forgotten else None


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _bound(members: Members | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that belongs to whoever hands it to a thread, whichever thread that is."""

    def run(*args: Any, **kwargs: Any) -> Any:
        token = _here.set(members if members is not None else _NOBODY)
        try:
            return function(*args, **kwargs)
        finally:
            _here.reset(token)

    return run


def _watch_starts() -> None:
    """See to it that what is started from within belongs there, as long as anything is in force."""
    real_start, real_submit = threading.Thread.start, ThreadPoolExecutor.submit
    real_new_thread, real_sleep = _thread.start_new_thread, time.sleep

    def start(thread: threading.Thread) -> None:
        members = _found()
        if members is not None and not isinstance(thread, _native.OwnThread):
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

    _patches.put(threading.Thread, "start", start)
    _patches.put(ThreadPoolExecutor, "submit", submit)
    _patches.put(_thread, "start_new_thread", start_new_thread)
    _patches.put(time, "sleep", sleep)
