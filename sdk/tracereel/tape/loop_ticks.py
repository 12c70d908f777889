"""Event loop iterations, recorded to see which results arrived together.

This costs a few callbacks after a call begins or ends, and does not reorder other callbacks. A new
series begins when no call has begun or ended for a while; the loop is assumed to be idle between
series.
"""

import asyncio
import itertools
from typing import Final
from weakref import WeakKeyDictionary

from tracereel._runtime.compat import running_loop_or_none

HOPS: Final = 4
"""Iterations that are counted after a result."""


class LoopTicks:
    """Counts the iterations of one loop while calls begin and end in it."""

    __slots__ = ("_left", "_loop", "_running", "_series", "series", "turn")

    def __init__(self, loop: asyncio.AbstractEventLoop, series: "itertools.count[int]") -> None:
        self._loop = loop
        self._series = series
        self._left = 0
        self._running = False
        self.series = 0
        self.turn = 0

    def mark(self, hops: int) -> tuple[int, int]:
        """Return the current iteration and keep counting for `hops` more."""
        if not self._running:
            self._running = True
            self.series = next(self._series)
            self.turn = 0
            self._loop.call_soon(self._hop)
        self._left = max(self._left, hops)
        return self.series, self.turn

    def _hop(self) -> None:
        self.turn += 1
        self._left -= 1
        if self._left > 0:
            self._loop.call_soon(self._hop)
        else:
            self._running = False


class AllTurns:
    """Iteration counters of all loops that a run uses."""

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTicks] = WeakKeyDictionary()
        self._series = itertools.count(1)
        self._tasks: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()
        self._task_numbers = itertools.count(1)

    def task(self) -> int:
        """Return the number of the current task, from 1; 0 without a task."""
        loop = running_loop_or_none()
        task = asyncio.current_task(loop) if loop is not None else None
        if task is None:
            return 0
        number = self._tasks.get(task)
        if number is None:
            number = self._tasks[task] = next(self._task_numbers)
        return number

    def mark(self, hops: int = HOPS) -> tuple[int, int] | None:
        """Return the iteration of the running loop, or `None` without a loop."""
        loop = running_loop_or_none()
        if loop is None:
            return None
        turns = self._loops.get(loop)
        if turns is None:
            turns = self._loops[loop] = LoopTicks(loop, self._series)
        return turns.mark(hops)
