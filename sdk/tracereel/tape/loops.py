"""Event loops in a re-execution: time that jumps instead of passing, and results given when all is quiet.

A loop is idle when it would wait for something. Then either the next result of the tape is given, or the
clock moves on to the next timer, whichever was first when the run was recorded. Nothing is waited
for in real time but threads and files. Loops without a selector of Python's (uvloop) keep real time, and
get each result after a few turns.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from tracereel.tape.format import Given
from tracereel.tape.reel import Reel
from tracereel.tape.turns import HOPS

SLACK: Final = 0.002
"""Seconds by which a timer must be earlier than the next result to be surely the first of the two."""
LIMIT_SLACK: Final = 0.02
"""The same for a time limit: that the result came says that it came in time."""
_LIMITS: Final = frozenset({"_release_waiter", "_on_timeout"})
PATIENCE: Final = 3600.0
"""Seconds of the run that timers may go on without any call or result; and they are spent quickly."""
WORKING: Final = 60
"""How many times longer it takes until a run is given up that has threads or files beside it."""
GRACE: Final = 0.01
"""Seconds that threads get to do something before the clock moves."""
_NAP: Final = 0.005
_TICK: Final = 1e-6


class Clock:
    """Time as the run sees it: it moves only when told, until the run goes on by itself."""

    def __init__(self) -> None:
        self._moved = 0.0
        self._moved_at = time.monotonic()
        self._lock = threading.Lock()
        self._running_since: float | None = None
        self.has_real_timers = False
        """Whether a loop of the run waits for its timers in real time, which do not move this."""

    @property
    def runs(self) -> bool:
        """Whether time passes as it does for everybody."""
        return self._running_since is not None

    def run(self) -> None:
        """Let time pass by itself from here on."""
        with self._lock:
            if self._running_since is None:
                self._running_since = time.monotonic()

    def skip(self, seconds: float) -> None:
        """Let time pass at once."""
        if seconds > 0:
            with self._lock:
                self._moved += seconds
                self._moved_at = time.monotonic()

    def stands_since(self) -> float:
        """Seconds, in real time, for which nothing has moved it."""
        return 0.0 if self.runs else time.monotonic() - self._moved_at

    def elapsed(self) -> float:
        """Seconds since the beginning of the run."""
        since = self._running_since
        return self._moved + (0.0 if since is None else time.monotonic() - since)

    def reach(self, microseconds: int) -> None:
        """Move on to a moment of the tape, if it is not there yet."""
        self.skip(microseconds / 1e6 - self.elapsed())


class Loops:
    """The loops that a re-execution has taken over; `restore` gives them back."""

    def __init__(
        self,
        reel: Reel,
        clock: Clock,
        *,
        stalled: Callable[..., BaseException | None],
        stall_seconds: float,
        has_threads: Callable[[], bool],
    ) -> None:
        self._reel = reel
        self._clock = clock
        self._stalled = stalled
        self._stall_seconds = stall_seconds
        self._has_threads = has_threads
        self._taken: dict[int, tuple[Any, Any]] = {}
        self._pumping: set[int] = set()
        self._over = False
        self._moved = (-1, 0.0, 0.0)
        """How far the run had come when it last came further, and when, by both clocks."""
        reel.on_arrival = self.adopt

    def adopt(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Take over the loop that runs here, unless all is over."""
        if self._over:
            return
        if loop is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return
        selector = getattr(loop, "_selector", None)
        if selector is None:
            self._pump(loop)
            return
        if id(loop) in self._taken:
            return
        given: Any = loop
        self._taken[id(loop)] = given, selector
        began = loop.time() - self._clock.elapsed()
        given.time = lambda: began + self._clock.elapsed()
        given._selector = _Selector(  # noqa: SLF001
            selector, lambda timeout: self._idle(given, selector, timeout)
        )

    def reach(self, microseconds: int) -> None:
        """Move on to the moment of the tape at which a call began, but past no timer of the loop."""
        ahead = microseconds / 1e6 - self._clock.elapsed()
        try:
            loop: Any = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        timers = getattr(loop, "_scheduled", None)
        if timers:
            # It was set just before, and a busy machine took its time: that does not make it due.
            ahead = min(ahead, timers[0].when() - loop.time() - _TICK)
        self._clock.skip(ahead)

    def restore(self) -> None:
        """Give the loops back, for good."""
        self._over = True
        for loop, selector in self._taken.values():
            loop._selector = selector  # noqa: SLF001 - asyncio has no other place to stand in
            if "time" in vars(loop):
                del loop.time
        self._taken.clear()

    def _idle(self, loop: Any, selector: Any, timeout: float | None) -> Any:
        """The loop has nothing to do for `timeout` seconds, or for ever; what its selector gives."""
        if self._reel.free or getattr(loop, "_executor_shutdown_called", False):
            # Nothing comes from the tape any more, or the loop waits for its threads to end: newer
            # Pythons give them a time limit, and complain of threads that did not keep to it.
            return selector.select(timeout)
        stalled_at: float | None = None
        graced = not self._has_threads()
        while True:
            events = selector.select(0)
            if events:
                return events
            given = self._reel.due(loop)
            if given is not None and (timeout is None or self._comes_first(loop, given, timeout)):
                self._clock.reach(given.at)
                self._reel.release(loop, HOPS)
                return []
            if not graced:
                graced = True
                if events := selector.select(GRACE):
                    return events
                continue
            if timeout is not None and (given is not None or not self._elsewhere(loop)):
                alone = not self._has_threads() and self._bare(selector)
                if alone and self._reel.pass_over(self._clock.elapsed() + timeout):
                    continue
                self._spend(timeout, alone=alone)
                return []
            if self._reel.cancel_due(loop):
                return []
            now = time.monotonic()
            stalled_at = stalled_at if stalled_at is not None else now
            alone = not self._has_threads() and self._bare(selector)
            if (alone or now - stalled_at > self._stall_seconds) and self._reel.waits(loop):
                self._reel.break_off(loop, self._stalled(self._reel.next))
                return []
            if events := selector.select(_NAP):
                return events
            if timeout is not None and now - stalled_at > self._stall_seconds:
                self._spend(timeout, alone=alone)
                return []

    def _spend(self, seconds: float, *, alone: bool) -> None:
        """Let time pass up to a timer; not for ever, where timers lead nowhere.

        Threads, files and other programs may be at work for long: where there are any, they get time.

        Raises:
            BaseException: what `stalled` says.
        """
        self._clock.skip(seconds)
        now, given = time.monotonic(), self._reel.progress
        if given != self._moved[0]:
            self._moved = given, now, self._clock.elapsed()
        _, since, elapsed = self._moved
        limit = self._stall_seconds * (1 if alone else WORKING)
        if now - since > limit and self._clock.elapsed() - elapsed > PATIENCE:
            error = self._stalled(self._reel.next, hopeless=True)
            self._reel.give_up()
            if error is not None:
                raise error

    def _comes_first(self, loop: Any, given: Given, timeout: float) -> bool:
        """Whether a result comes before the timer that is next."""
        if not self._reel.is_ready(given):
            return False  # on the tape, something was called before it: the timer leads there
        timers = loop._scheduled  # noqa: SLF001
        timer = timers[0]._callback if timers else None  # noqa: SLF001
        slack = LIMIT_SLACK if getattr(timer, "__name__", "") in _LIMITS else SLACK
        return timeout > given.at / 1e6 - self._clock.elapsed() - slack

    def _elsewhere(self, loop: Any) -> bool:
        """Whether the next result is given in another loop or thread, and soon."""
        with self._reel.condition:
            given = self._reel.next
            waiter = self._reel.waiting.get((given.call, given.index)) if given else None
        return waiter is not None and waiter.loop is not loop

    @staticmethod
    def _bare(selector: Any) -> bool:
        """Whether the loop waits for no file or socket but its own."""
        return len(selector.get_map()) <= 1

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        """For loops that do not show when they are idle: a result every few turns."""
        if id(loop) not in self._pumping:
            self._pumping.add(id(loop))
            self._clock.has_real_timers = True
            loop.call_soon(self._turn, loop, 0)

    def _turn(self, loop: asyncio.AbstractEventLoop, turns: int) -> None:
        if turns < 10:
            loop.call_soon(self._turn, loop, turns + 1)
            return
        if (given := self._reel.due(loop)) is not None:
            self._clock.reach(given.at)
        self._reel.release(loop, HOPS)
        mine = [waiter for waiter in self._reel.waiting.values() if waiter.loop is loop]
        if mine or self._reel.endless:
            loop.call_later(0.001, self._turn, loop, 0)
        else:
            self._pumping.discard(id(loop))


class _Selector:
    """A loop's selector, except that somebody else decides what to do when there is nothing to do."""

    def __init__(self, selector: Any, idle: Callable[[float | None], Any]) -> None:
        self._selector = selector
        self._idle = idle

    def select(self, timeout: float | None = None) -> Any:
        """What is ready now, or later."""
        if timeout is not None and timeout <= 0:
            return self._selector.select(timeout)
        return self._idle(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)
