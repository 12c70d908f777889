"""Growth of CPU time with input size, measured robustly on a busy machine."""

import gc
import time
from collections.abc import Callable
from typing import TypeVar

Input = TypeVar("Input")

MOST = 2.6
"""Maximum factor of time when the input doubles."""
SMALL = 2_048
LIMIT = 65_536
"""Characters of the largest input, the limit of a request's line and headers."""
_SCREEN = {4: 7.0, 16: 24.0}
"""Factor of input size → maximum factor of time. Both are below 2.6 per doubling."""
_TINY = (*range(8, 64, 4), 64, 128, 256, 512, 1024)
_TINY_SECONDS = 0.1
"""Time limit for tiny inputs, so that an exponential parser does not run forever."""
_NOISE = 20e-6
_NEGLIGIBLE = 0.002
"""Shorter times for the larger input are ignored: no attack, mostly allocator noise."""
_RETRIES = 4


def cpu_time(run: Callable[[Input], object], data: Input, runs: int) -> float:
    """Return the least CPU time of this thread over several runs; a long run is not repeated."""
    least = float("inf")
    # A garbage collection takes time proportional to the heap of all imported modules.
    gc.disable()
    try:
        for _ in range(runs):
            began = time.thread_time()
            try:
                run(data)
            except (Exception, SystemExit) as error:
                # A refusal takes time as well; a call with wrong arguments is an error in the test.
                if isinstance(error, TypeError) and "positional argument" in str(error):
                    raise
            least = min(least, time.thread_time() - began)
            if least > 0.05:
                break
    finally:
        gc.enable()
    return least


def excess(run: Callable[[Input], object], make: Callable[[int], Input]) -> str | None:
    """Return how the time grows if it exceeds the limit, else None.

    A screening with inputs of 2, 8 and 32 Ki decides most cases; suspects are measured again until one
    measurement is within the limit or all have exceeded it.
    """
    for size in _TINY:
        spent = cpu_time(run, make(size), 1)
        if spent > _TINY_SECONDS and (spent := cpu_time(run, make(size), 1)) > _TINY_SECONDS:
            return f"{spent:.2f} s of CPU time for {size} characters"
    base = cpu_time(run, make(SMALL), 2) + _NOISE
    if not any(
        cpu_time(run, make(SMALL * times), 1) > most * base for times, most in _SCREEN.items()
    ):
        return None
    size = 2 * SMALL
    while size * 2 <= LIMIT:
        found = [_doubling(run, make, size)]
        while found[-1] > MOST and len(found) < _RETRIES:
            found.append(_doubling(run, make, size))
        if found[-1] > MOST:
            return f"{min(found):.1f} times as long for {2 * size} as for {size} characters"
        size *= 2
    return None


def _doubling(run: Callable[[Input], object], make: Callable[[int], Input], size: int) -> float:
    one, two = make(size), make(2 * size)
    larger = cpu_time(run, two, 5)
    return larger / (cpu_time(run, one, 5) + _NOISE) if larger > _NEGLIGIBLE else 0.0
