"""Control of event loops in a re-execution: time is skipped, results arrive when idle.

A loop is idle when it would block. Then either the next result of the tape is delivered or the
clock advances to the next timer, whichever was first in the recording. Only threads and files are
waited for in real time. Loops without a Python selector (uvloop) keep real time and get each
result after a few iterations.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from tracereel._runtime import compat
from tracereel.tape.format import Given
from tracereel.tape.loop_ticks import HOPS
from tracereel.tape.result_order import Reel

SLACK: Final = 0.002
"""Seconds by which a timer must precede the next result to run first."""
LIMIT_SLACK: Final = 0.02
"""The same for timeouts; larger, because the recorded result arrived before the timeout."""
PATIENCE: Final = 3600.0
"""Seconds of virtual time that timers may run without any call or result."""
WORKING: Final = 60
"""Factor for the stall limit of a run that has threads or files."""
GRACE: Final = 0.01
"""Seconds that threads get before the clock advances."""
_NAP: Final = 0.005
_TICK: Final = 1e-6


class Clock:
    """Virtual time of the run; it advances only by `skip` until `run` starts it."""

    def __init__(self) -> None:
        self._moved = 0.0
        self._stands_from: float | None = None
        """Real time since which it stands still; `None` until it is first read in the run."""
        self.run_began: float | None = None
        """Time at which the run began; code before it may have slept."""
        self._lock = threading.Lock()
        self._running_since: float | None = None
        self.has_real_timers = False
        """Whether a loop of the run has real-time timers, which do not advance this clock."""

    @property
    def runs(self) -> bool:
        """Whether time passes at its real speed."""
        return self._running_since is not None

    def run(self) -> None:
        """Let time pass at its real speed from now on."""
        with self._lock:
            if self._running_since is None:
                self._running_since = time.monotonic()

    def skip(self, seconds: float) -> None:
        """Advance the clock."""
        if seconds > 0:
            with self._lock:
                self._moved += seconds
                self._stands_from = time.monotonic()

    def begin_run(self) -> None:
        """Count the times of the tape from now on; forget real time before, such as of imports."""
        with self._lock:
            self.run_began = self.elapsed()
            self._stands_from = None

    def stands_since(self) -> float:
        """Return real seconds since the clock last advanced, or was first read in the run."""
        if self.runs:
            return 0.0
        with self._lock:
            now = time.monotonic()
            if self._stands_from is None:
                self._stands_from = now
            return now - self._stands_from

    def elapsed(self) -> float:
        """Return virtual seconds since the clock was made."""
        since = self._running_since
        return self._moved + (0.0 if since is None else time.monotonic() - since)

    def in_run(self) -> float:
        """Return virtual seconds since the beginning of the run."""
        return self.elapsed() - (self.run_began or 0.0)

    def until(self, microseconds: int) -> float:
        """Return seconds until a time of the tape; negative if it is over."""
        return microseconds / 1e6 - self.in_run()

    def reach(self, microseconds: int) -> None:
        """Advance the clock to a time of the tape, unless it is already later."""
        self.skip(self.until(microseconds))


class Loops:
    """Loops that a re-execution controls until `restore`."""

    def __init__(
        self,
        reel: Reel,
        clock: Clock,
        *,
        stalled: Callable[..., BaseException | None],
    ) -> None:
        self._reel = reel
        self._clock = clock
        self._stalled = stalled
        self._taken: dict[int, tuple[Any, Any]] = {}
        self._pumping: set[int] = set()
        self._over = False
        self._moved = (-1, 0.0, 0.0)
        """Last progress: its counter, real time and virtual time."""
        reel.on_arrival = self.adopt

    def adopt(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Take control of a loop (default: the running one) until `restore`."""
        if self._over:
            return
        loop = loop or compat.running_loop_or_none()
        if loop is None:
            return
        selector = compat.selector_of(loop)
        if selector is None:
            self._pump(loop)
            return
        if id(loop) in self._taken:
            return
        given: Any = loop
        self._taken[id(loop)] = given, selector
        began = loop.time() - self._clock.elapsed()
        given.time = lambda: began + self._clock.elapsed()
        idle = _Selector(selector, lambda timeout: self._idle(given, selector, timeout))
        compat.set_selector(loop, idle)

    def reach(self, microseconds: int) -> None:
        """Advance to the recorded start of a call, but not past a timer."""
        ahead = self._clock.until(microseconds)
        loop = compat.running_loop_or_none()
        if loop is not None and (timer := compat.next_timer(loop)) is not None:
            # The timer was set just before, and a busy machine delayed the recorded call.
            ahead = min(ahead, timer.when() - loop.time() - _TICK)
        self._clock.skip(ahead)

    def restore(self) -> None:
        """Return control of all loops permanently."""
        self._over = True
        for loop, selector in self._taken.values():
            compat.set_selector(loop, selector)
            if "time" in vars(loop):
                del loop.time
        self._taken.clear()

    def _idle(self, loop: Any, selector: Any, timeout: float | None) -> Any:
        """Handle an idle loop and return the selector's events; `timeout` `None` means no timer."""
        if self._reel.free or compat.is_joining_threads(loop):
            # Either the tape has nothing left, or the loop waits for its threads to end. Newer
            # Pythons limit that wait and warn about threads that exceed it.
            return selector.select(timeout)
        stalled_at: float | None = None
        graced = not self._reel.has_threads()
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
                alone = self._alone(selector)
                if alone and self._reel.pass_over(self._clock.in_run() + timeout):
                    continue
                self._spend(timeout, alone=alone)
                return []
            if self._reel.cancel_due(loop):
                return []
            now = time.monotonic()
            stalled_at = stalled_at if stalled_at is not None else now
            alone = self._alone(selector)
            if (alone or now - stalled_at > self._reel.stall_seconds) and self._reel.waiting_in(
                loop
            ):
                self._reel.break_off(loop, self._stalled(self._reel.next))
                return []
            if events := selector.select(_NAP):
                return events
            if timeout is not None and now - stalled_at > self._reel.stall_seconds:
                self._spend(timeout, alone=alone)
                return []

    def _spend(self, seconds: float, *, alone: bool) -> None:
        """Advance the clock to a timer, and stop if timers make no progress.

        The limit is longer while threads, files or other programs may be at work.

        Raises:
            BaseException: the error that `stalled` returns.
        """
        self._clock.skip(seconds)
        now, given = time.monotonic(), self._reel.progress
        if given != self._moved[0]:
            self._moved = given, now, self._clock.elapsed()
        _, since, elapsed = self._moved
        limit = self._reel.stall_seconds * (1 if alone else WORKING)
        if now - since > limit and self._clock.elapsed() - elapsed > PATIENCE:
            error = self._stalled(self._reel.next, hopeless=True)
            self._reel.give_up()
            if error is not None:
                raise error

    def _comes_first(self, loop: Any, given: Given, timeout: float) -> bool:
        """Return whether a result precedes the next timer."""
        if not self._reel.is_ready(given):
            return False  # on the tape another call was made first: the timer leads to it
        timer = compat.next_timer(loop)
        slack = LIMIT_SLACK if timer is not None and compat.is_timeout(timer) else SLACK
        return timeout > self._clock.until(given.at) - slack

    def _elsewhere(self, loop: Any) -> bool:
        """Return whether another loop or thread waits for the next result."""
        with self._reel.condition:
            given = self._reel.next
            waiter = self._reel.waiting.get((given.call, given.index)) if given else None
        return waiter is not None and waiter.loop is not loop

    def _alone(self, selector: Any) -> bool:
        """Return whether there are no threads, and the loop waits only for its own self-pipe."""
        return not self._reel.has_threads() and len(selector.get_map()) <= 1

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver a result every few iterations, for loops that do not expose idleness."""
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
    """Selector wrapper that calls `idle` instead of blocking."""

    def __init__(self, selector: Any, idle: Callable[[float | None], Any]) -> None:
        self._selector = selector
        self._idle = idle

    def select(self, timeout: float | None = None) -> Any:
        """Return ready events."""
        if timeout is not None and timeout <= 0:
            return self._selector.select(timeout)
        return self._idle(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)
