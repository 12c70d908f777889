"""Calls that begin a run of a framework, seen where the program makes them."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tracereel._core import framework_entries
from tracereel._core.framework_entries import FrameworkEntry
from tracereel._runtime import guard

_MARK = "__tracereel_entry__"
_KEPT = ("configurable", "metadata", "recursion_limit", "tags")
"""Fields of a configuration that are input; others hold objects of the process, such as callbacks."""


def watch(owner: type, name: str, call: str, *, leaves_out: tuple[str, ...] = ()) -> None:
    """See the calls of a method, whose first argument is the framework's object.

    Args:
        call: framework and method, as on tapes.
        leaves_out: arguments that are no part of the input.
    """
    method = vars(owner).get(name)
    if method is None or hasattr(method, _MARK):
        return
    real = method.__func__ if isinstance(method, classmethod) else method
    skipped = 1 if isinstance(method, classmethod) else 0
    signature = inspect.signature(real)

    def made(args: tuple[Any, ...], kwargs: dict[str, Any]) -> FrameworkEntry | None:
        entry = None
        if framework_entries.is_needed():
            with guard.Guard("framework_entry"):
                passed = signature.bind(*args, **kwargs).arguments
                (target, *names) = list(passed)[skipped:]
                given = {each: passed[each] for each in names if each not in leaves_out}
                if isinstance(config := given.get("config"), dict):
                    given["config"] = {key: config[key] for key in _KEPT if key in config}
                entry = framework_entries.entry_of(call, passed[target], given)
        return entry

    watched = _watched(real, made)
    watched.__dict__[_MARK] = True
    setattr(owner, name, classmethod(watched) if isinstance(method, classmethod) else watched)


@contextmanager
def within(entry: FrameworkEntry | None) -> Iterator[None]:
    """Make an entry the current one."""
    if entry is None:
        yield
        return
    token = framework_entries.current.set(entry)
    try:
        yield
    finally:
        framework_entries.current.reset(token)


def _watched(real: Any, made: Callable[..., FrameworkEntry | None]) -> Any:
    if inspect.iscoroutinefunction(real):

        @functools.wraps(real)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            with within(made(args, kwargs)):
                return await real(*args, **kwargs)

        return call_async
    if inspect.isasyncgenfunction(real):

        @functools.wraps(real)
        async def stream_async(*args: Any, **kwargs: Any) -> Any:
            inner, entry = real(*args, **kwargs), made(args, kwargs)
            try:
                while True:
                    with within(entry):
                        try:
                            item = await anext(inner)
                        except StopAsyncIteration:
                            return
                    yield item
            finally:
                await inner.aclose()

        return stream_async
    if inspect.isgeneratorfunction(real):

        @functools.wraps(real)
        def stream(*args: Any, **kwargs: Any) -> Any:
            inner, entry = real(*args, **kwargs), made(args, kwargs)
            try:
                while True:
                    with within(entry):
                        try:
                            item = next(inner)
                        except StopIteration as stop:
                            return stop.value
                    yield item
            finally:
                inner.close()

        return stream

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        with within(made(args, kwargs)):
            return real(*args, **kwargs)

    return call
