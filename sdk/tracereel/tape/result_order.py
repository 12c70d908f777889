"""Order of results in a re-execution: each is delivered in its turn on the tape.

A call waits until all earlier results have been delivered. Unchanged code cannot deadlock:
everything that the next result depends on has been delivered. An idle loop releases its tasks
(`loops`); threads release each other.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from tracereel._runtime.compat import running_loop_or_none
from tracereel.tape.format import Given, Tape

STALL_SECONDS: Final = 10.0
"""Seconds that a thread waits without progress."""
SETTLE: Final = 0.003
"""Seconds between results for different threads."""
LATE: Final = 0.05
"""Seconds after which a recorded call that was not made is no longer expected."""
BUSY: Final = 0.25
"""Seconds without progress after which a result need not wait for a call that was not made."""
OVERDUE: Final = 1.0
"""Seconds that a call waits for one of another thread which had ended before it on the tape."""
NOT_GIVEN: Final = ("cancelled", "closed")
"""Ends that the program caused, not the call."""

Key = tuple[int, int]


class StalledError(Exception):
    """A caller waits, but no result on the tape can be delivered."""


class Waiter:
    """Task that waits for a result."""

    __slots__ = ("future", "given", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, given: Given | None) -> None:
        self.loop = loop
        self.future: asyncio.Future[None] = loop.create_future()
        self.given = given


class _Begun:
    """Calls of one thread of the tape, and which of them have been made."""

    def __init__(self) -> None:
        self.expected: list[int] = []
        self.seen: set[int] = set()
        self._at = 0

    def first_missing(self) -> int | None:
        while self._at < len(self.expected) and self.expected[self._at] in self.seen:
            self._at += 1
        return self.expected[self._at] if self._at < len(self.expected) else None


class Reel:
    """Results of a tape in order, and the tasks that wait for them."""

    def __init__(
        self,
        tape: Tape,
        *,
        stall_seconds: float = STALL_SECONDS,
        has_threads: Callable[[], bool] = lambda: False,
    ) -> None:
        calls = tape.boundaries()
        given = (each for call in calls for each in call.results())
        self.order: list[Given] = sorted(given, key=lambda each: each.order)
        self.condition = threading.Condition()
        self.waiting: dict[Key, Waiter] = {}
        self.endless: list[Waiter] = []
        """Tasks whose call has no end on the tape."""
        self._begun: dict[int, _Begun] = {}
        for call in calls:
            self._begun.setdefault(call.lane, _Begun()).expected.append(call.number)
        self._lanes = {call.number: call.lane for call in calls}
        self._times = {call.number: call.at / 1e6 for call in calls}
        self._place = {(each.call, each.index): i for i, each in enumerate(self.order)}
        self._done = [False] * len(self.order)
        self._at = 0
        self.stall_seconds = stall_seconds
        self._last: tuple[int, float] | None = None
        self.has_threads = has_threads
        self.free = False
        """Whether ordering is off, because the run continues without the tape."""
        self.on_arrival: Callable[[asyncio.AbstractEventLoop], None] = lambda _loop: None

    @property
    def next(self) -> Given | None:
        """First result that has not been delivered."""
        return self.order[self._at] if self._at < len(self.order) else None

    @property
    def progress(self) -> int:
        """Number of calls made and results delivered."""
        with self.condition:
            return self._at + sum(len(each.seen) for each in self._begun.values())

    def begun(self, number: int) -> None:
        """Record that a call of the tape was made."""
        with self.condition:
            self._begun[self._lanes[number]].seen.add(number)
            self.condition.notify_all()

    def await_begun(self, numbers: Sequence[int]) -> bool:
        """Wait up to `OVERDUE` seconds for calls to begin; return whether one has not begun."""
        with self.condition:
            return not self.condition.wait_for(
                lambda: self.free or all(self._has_begun(each) for each in numbers), OVERDUE
            )

    def _has_begun(self, number: int) -> bool:
        return number in self._begun[self._lanes[number]].seen

    def is_ready(self, given: Given) -> bool:
        """Return whether all calls that began before this result on the tape were made."""
        with self.condition:
            first = self._begun[self._lanes[given.call]].first_missing()
        return first is None or first > given.after

    def pass_over(self, moment: float) -> bool:
        """Skip a call that blocks the next result and is overdue.

        Nothing happens before `moment`, and the call was made well before that on the tape. Replay
        time is never ahead of tape time while the program behaves the same.
        """
        with self.condition:
            given = self.next
            if given is None:
                return False
            lane = self._begun[self._lanes[given.call]]
            first = lane.first_missing()
            if first is None or first > max(given.after, given.call):
                return False
            if self._times[first] + LATE > moment:
                return False
            lane.seen.add(first)
            for each in self.order[self._at :]:
                if each.call == first:
                    self.done(each)
            return True

    def has_given(self, given: Given | None) -> bool:
        """Return whether a call delivered this result, rather than being cancelled."""
        if given is None or given.how in NOT_GIVEN:
            return False
        return self._done[self._place[given.call, given.index]]

    def done(self, given: Given) -> None:
        """Mark a result as delivered or no longer needed."""
        with self.condition:
            self._done[self._place[given.call, given.index]] = True
            while self._at < len(self.order) and self._done[self._at]:
                self._at += 1
            self.condition.notify_all()

    def give_up(self) -> None:
        """Stop ordering and release all waiters."""
        with self.condition:
            self.free = True
            for waiter in list(self.waiting.values()):
                if not waiter.loop.is_closed():
                    waiter.loop.call_soon_threadsafe(_release, waiter.future)
            self.condition.notify_all()

    def _alone(self) -> bool:
        """Return whether there is no other thread or task to wait for."""
        return not self.has_threads() and not self.waiting

    def _its_turn(self, given: Given) -> bool:
        return self.free or all(self._done[self._at : self._place[given.call, given.index]])

    def _next_is_not_called(self) -> bool:
        given = self.next
        return given is not None and not self._has_begun(given.call)

    def waits_for_others(self, given: Given | None) -> bool:
        """Return whether the next result is of a call that the waiting tasks may hold up.

        With a smaller pool or semaphore, a call is made only when another one has its result.
        """
        with self.condition:
            waiting = any(each.given is not None for each in self.waiting.values())
            return given is not None and waiting and not self._has_begun(given.call)

    def wait(self, given: Given) -> None:
        """Wait in a thread for the turn of a result."""
        if running_loop_or_none() is not None:
            # The loop is blocked while a plain function runs in it, so waiting would deadlock.
            self.done(given)
            return
        with self.condition:
            deadline, before = time.monotonic() + self.stall_seconds, self._at
            patient = max(0.0, self.stall_seconds - BUSY)
            while not self._its_turn(given):
                self.condition.wait(0.05)
                if self._at != before:
                    deadline, before = time.monotonic() + self.stall_seconds, self._at
                elif self._next_is_not_called() and time.monotonic() > deadline - patient:
                    break  # it may wait for this thread: a smaller pool makes calls later
                elif time.monotonic() > deadline or self._alone():
                    raise StalledError
            me = threading.get_ident()
            if self._last is not None and self._last[0] != me:
                rest = self._last[1] + SETTLE - time.monotonic()
                if rest > 0:
                    self.condition.wait_for(lambda: False, rest)
            self._last = me, time.monotonic()
            self.done(given)

    async def wait_async(self, given: Given) -> None:
        """Wait in a task for the turn of a result."""
        if self.free or not given.waited or self._done[self._place[given.call, given.index]]:
            # On the tape this result arrived without a loop iteration.
            self.done(given)
            return
        waiter = Waiter(asyncio.get_running_loop(), given)
        with self.condition:
            self.waiting[given.call, given.index] = waiter
        self.on_arrival(waiter.loop)
        try:
            await waiter.future
        finally:
            with self.condition:
                self.waiting.pop((given.call, given.index), None)
            self.done(given)

    async def wait_for_ever(self) -> None:
        """Wait in a task for a call that has no end on the tape."""
        waiter = Waiter(asyncio.get_running_loop(), None)
        with self.condition:
            self.endless.append(waiter)
        self.on_arrival(waiter.loop)
        try:
            await waiter.future
        finally:
            with self.condition:
                self.endless.remove(waiter)

    def due(self, loop: asyncio.AbstractEventLoop) -> Given | None:
        """Return the next result if a task of that loop waits for it."""
        with self.condition:
            given = self.next
            if given is None or given.how in NOT_GIVEN:
                return None
            waiter = self.waiting.get((given.call, given.index))
            usable = waiter is not None and waiter.loop is loop and not waiter.future.done()
            return given if usable else None

    def release(self, loop: asyncio.AbstractEventLoop, hops: int) -> None:
        """Deliver the next result, and those from the following loop iterations."""
        first = self.due(loop)
        if first is None:
            return
        _release(self.waiting[first.call, first.index].future)
        if first.turn is not None:
            self._follow(loop, first.turn, 0, hops)

    def _follow(
        self, loop: asyncio.AbstractEventLoop, start: tuple[int, int], turns: int, hops: int
    ) -> None:
        series, turn = start
        while True:
            given = self._after_released()
            if given is None or given.turn is None or given.turn[0] != series:
                return
            if given.turn[1] - turn > turns:
                break
            waiter = self.waiting.get((given.call, given.index))
            if given.how in NOT_GIVEN or waiter is None or waiter.future.done():
                return
            _release(waiter.future)
        if turns < hops:
            loop.call_soon(self._follow, loop, start, turns + 1, hops)

    def _after_released(self) -> Given | None:
        """Return the first result that has not been released."""
        for given in self.order[self._at :]:
            waiter = self.waiting.get((given.call, given.index))
            if waiter is not None and waiter.future.done():
                continue
            if not self._done[self._place[given.call, given.index]]:
                return given
        return None

    def waiting_in(self, loop: asyncio.AbstractEventLoop) -> list[Waiter]:
        """Return the tasks of a loop that wait, in the order of their results."""
        with self.condition:
            waiters = (*self.waiting.values(), *self.endless)
        mine = [each for each in waiters if each.loop is loop and not each.future.done()]
        last = len(self.order)
        mine.sort(key=lambda w: self._place[w.given.call, w.given.index] if w.given else last)
        return mine

    def break_off(self, loop: asyncio.AbstractEventLoop, error: BaseException | None) -> None:
        """Fail the first waiting task of a loop, or release it without `error`."""
        for waiter in self.waiting_in(loop)[:1]:
            if error is None and waiter.given is not None:
                _release(waiter.future)
            else:
                waiter.future.set_exception(error or StalledError())

    def cancel_due(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Cancel the next call if it was cancelled on the tape."""
        with self.condition:
            given = self.next
            waiter = self.waiting.get((given.call, given.index)) if given is not None else None
        if given is None or given.how != "cancelled" or waiter is None:
            return False
        if waiter.loop is not loop or waiter.future.done():
            return False
        waiter.future.cancel()
        return True


def _release(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
