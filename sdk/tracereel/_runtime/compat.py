"""Private names of dependencies that have no public counterpart.

`tests/sdk/runtime/test_compat.py` checks each against the installed versions.
"""

import asyncio
import functools
import sys
from asyncio import _get_running_loop as running_loop_or_none
from collections.abc import Callable, Iterable
from typing import Any, Final

from opentelemetry import context as otel_context
from opentelemetry.context import (
    _SUPPRESS_HTTP_INSTRUMENTATION_KEY,
    _SUPPRESS_INSTRUMENTATION_KEY,
)

__all__ = [
    "before_new_processes",
    "is_idle",
    "is_joining_threads",
    "is_timeout",
    "next_timer",
    "pipe_of",
    "running_loop_or_none",
    "selector_of",
    "set_selector",
    "uninstrumented_context",
    "worker_pools",
    "workers_of",
]

_TIMEOUTS: Final = frozenset({"_release_waiter", "_on_timeout"})
"""Callbacks of the timers of `asyncio.wait_for` and `asyncio.timeout`."""


def uninstrumented_context() -> otel_context.Context:
    """Return a context in which instrumentations of HTTP clients record nothing."""
    context = otel_context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True)
    return otel_context.set_value(_SUPPRESS_HTTP_INSTRUMENTATION_KEY, True, context)


def selector_of(loop: asyncio.AbstractEventLoop) -> Any:
    """Return the selector of an event loop; None for a loop without one (uvloop)."""
    return getattr(loop, "_selector", None)


def set_selector(loop: Any, selector: Any) -> None:
    """Replace the selector of an event loop."""
    loop._selector = selector  # noqa: SLF001 - asyncio has no public hook


def next_timer(loop: Any) -> asyncio.TimerHandle | None:
    """Return the next timer of an event loop; None without one."""
    timers = getattr(loop, "_scheduled", None)
    return timers[0] if timers else None


def is_timeout(timer: Any) -> bool:
    """Return whether a timer ends a wait instead of continuing the program."""
    return getattr(timer._callback, "__name__", "") in _TIMEOUTS  # noqa: SLF001 - no public name


def is_idle(loop: asyncio.AbstractEventLoop) -> bool | None:
    """Return whether an event loop has no callback to run; None if that is unknown."""
    ready = getattr(loop, "_ready", None)
    return None if ready is None else not ready


def is_joining_threads(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether an event loop shuts down its default executor."""
    return bool(getattr(loop, "_executor_shutdown_called", False))


def before_new_processes(prepare: Callable[[], None]) -> None:
    """Call a function before `multiprocessing` starts a process; there is no audit event for it."""
    try:
        import _posixsubprocess as spawning
    except ImportError:  # Windows, where `CreateProcess` takes the environment of `os.environ`
        return
    real = spawning.fork_exec

    @functools.wraps(real)
    def fork_exec(*args: Any) -> int:
        prepare()
        return real(*args)

    spawning.fork_exec = fork_exec


def worker_pools() -> tuple[tuple[type, str], ...]:
    """Return the loaded classes of process pools, each with the method that every job passes."""
    known = (
        ("concurrent.futures.process", "ProcessPoolExecutor", "submit"),
        ("multiprocessing.pool", "Pool", "_check_running"),
    )
    return tuple(
        (getattr(module, kind), method)
        for name, kind, method in known
        if (module := sys.modules.get(name)) is not None
    )


def workers_of(pool: Any) -> Iterable[int | None]:
    """Return the ids of the processes of a pool."""
    workers = getattr(pool, "_processes", None)
    if isinstance(workers, dict):
        return tuple(workers)
    return tuple(each.pid for each in getattr(pool, "_pool", None) or ())


def pipe_of(channel: Any) -> Any:
    """Return the pipe that a queue of `multiprocessing` writes to, or the channel itself."""
    return getattr(channel, "_writer", channel)
