"""Turns of an event loop: which completions came together, and how far apart the others were.

Costs a callback or a few after a call has begun or ended, and never changes the order of anything else.
A new number of a series begins when the loop has had nothing of ours for a while: between series it is
taken to have been idle.
"""

import asyncio
import itertools
from asyncio import _get_running_loop
from typing import Final
from weakref import WeakKeyDictionary

HOPS: Final = 4
"""Turns that are told apart after a completion."""


class Turns:
    """Counts the turns of one loop while calls of a tape begin and end in it."""

    __slots__ = ("_left", "_loop", "_running", "_series", "series", "turn")

    def __init__(self, loop: asyncio.AbstractEventLoop, series: "itertools.count[int]") -> None:
        self._loop = loop
        self._series = series
        self._left = 0
        self._running = False
        self.series = 0
        self.turn = 0

    def mark(self, hops: int) -> tuple[int, int]:
        """The turn of now."""
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
    """The turns of every loop that a run uses."""

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()
        self._series = itertools.count(1)
        self._tasks: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()
        self._task_numbers = itertools.count(1)

    def task(self) -> int:
        """The number of the task that runs here, from 1 on in the order they were seen; 0 for none."""
        loop = _get_running_loop()
        task = asyncio.current_task(loop) if loop is not None else None
        if task is None:
            return 0
        number = self._tasks.get(task)
        if number is None:
            number = self._tasks[task] = next(self._task_numbers)
        return number

    def mark(self, hops: int = HOPS) -> tuple[int, int] | None:
        """The turn of the loop that runs here; null where none does."""
        loop = _get_running_loop()
        if loop is None:
            return None
        turns = self._loops.get(loop)
        if turns is None:
            turns = self._loops[loop] = Turns(loop, self._series)
        return turns.mark(hops)
