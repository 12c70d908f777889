"""Runs that begin with a call of a framework, such as `graph.invoke(…)`, instead of a decorated function.

Their entry point on the tape is the variable of a module that holds the framework's object, and the
method that was called. A replay calls that method again.
"""

import functools
import importlib
import inspect
import sys
import weakref
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from tracereel._core import context
from tracereel._core import recorder as _recorder
from tracereel._core.tape_session import RUNS, Live
from tracereel._runtime import guard

MAX_FRAMES: Final = 100
MAX_PATHS: Final = 256
_paths: Final[dict[int, tuple["weakref.ref[Any]", str]]] = {}
"""Variables of objects that were looked for; the search takes milliseconds."""


@dataclass(frozen=True, slots=True)
class _Framework:
    module: str
    kind: str
    """Class of the objects that may be called."""
    methods: tuple[str, ...]
    runner: str = ""
    """Class in the same package that has the methods and takes the object, if it has none itself."""
    has_name: bool = True
    """Whether a run has the name of its object."""


FRAMEWORKS: Final = {
    "langgraph": _Framework(
        *("langgraph.pregel", "Pregel", ("invoke", "ainvoke", "stream", "astream")), has_name=False
    ),
    "openai-agents": _Framework("agents", "Agent", ("run", "run_sync", "run_streamed"), "Runner"),
    "pydantic-ai": _Framework("pydantic_ai", "Agent", ("run",)),
}


@dataclass(slots=True)
class FrameworkEntry:
    """Call of a framework that begins a run."""

    call: str
    """Framework and method, such as `langgraph.invoke`."""
    path: str
    """`module:variable` of the object, or an empty string if no module has it."""
    arguments: Mapping[str, Any]
    taken: bool = False
    """Whether its run has begun."""


current: Final[ContextVar[FrameworkEntry | None]] = ContextVar("tracereel_entry", default=None)
"""Call of a framework that is in progress."""


def is_needed() -> bool:
    """Return whether a call here begins a run that is recorded or replayed."""
    recorder = _recorder.active()
    return (
        recorder is not None
        and recorder.tape is not None
        and current.get() is None
        and context.current_execution() is None
    )


def entry_of(call: str, target: Any, arguments: Mapping[str, Any]) -> FrameworkEntry:
    """Return the entry for a call of an object, with the arguments that were passed."""
    known = _paths.get(id(target))
    if known is not None and known[0]() is target:
        return FrameworkEntry(call, known[1], dict(arguments))
    path = _path_of(target)
    if len(_paths) >= MAX_PATHS:
        _paths.clear()
    with suppress(TypeError):  # an object that cannot be referred to weakly
        _paths[id(target)] = weakref.ref(target), path
    return FrameworkEntry(call, path, dict(arguments))


def begin(execution: Any) -> Live:
    """Begin the outermost execution of a framework's call on its tape."""
    entry, recorder = current.get(), _recorder.active()
    if entry is None or entry.taken or execution.parent is not None or recorder is None:
        return RUNS
    session = recorder.tape
    if session is None:
        return RUNS
    entry.taken = True
    begun: Any = RUNS
    with guard.Guard("tape"):
        begun = session.begin(
            execution,
            around=None,
            kind=execution.kind,
            name=execution.name,
            function=None,
            arguments=entry.arguments,
            form="sync",
            effect="",
        )
    return begun if isinstance(begun, Live) else RUNS


def load(call: str, target: Any, name: str) -> Any:
    """Return the function that a tape names as `framework.method` of an object.

    Raises:
        ValueError: the framework, its method, or the class or name of the object is another one.
    """
    package, _, method = call.rpartition(".")
    framework = FRAMEWORKS.get(package)
    if framework is None or method not in framework.methods:
        raise ValueError(f"{call!r} is no call of {', '.join(FRAMEWORKS)}")
    module = sys.modules.get(framework.module)
    kind = getattr(module, framework.kind, None)
    if not isinstance(kind, type) or kind not in type.__getattribute__(type(target), "__mro__"):
        raise ValueError(f"it is no {framework.kind} of {package}")
    own = getattr(target, "name", None)
    if framework.has_name and own is not None and own != name:
        raise ValueError(f"the tape is of {name!r}, and it is {own!r} here")
    if not framework.runner:
        return getattr(target, method)
    run = functools.partial(
        getattr(importlib.import_module(framework.module), framework.runner)
        .__dict__[method]
        .__get__(None, getattr(module, framework.runner)),
        target,
    )
    return _streamed(run) if method == "run_streamed" else run


def _streamed(run: Any) -> Any:
    @functools.wraps(run.func)
    async def stream(*args: Any, **kwargs: Any) -> Any:
        result = run(*args, **kwargs)
        async for _ in result.stream_events():
            pass
        return result.final_output

    stream.__signature__ = inspect.signature(run)  # type: ignore[attr-defined]
    return stream


def _path_of(target: Any) -> str:
    """Return the variable of a module of the program that holds an object."""
    seen: set[str] = set()
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to get caller frames
    for _ in range(MAX_FRAMES):
        if frame is None:
            break
        found = _variable(frame.f_globals, target, seen)
        if found:
            return found
        frame = frame.f_back
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if type(names) is dict and "site-packages" not in str(names.get("__file__")):
            found = _variable(names, target, seen)
            if found:
                return found
    return ""


def _variable(names: dict[str, Any], target: Any, seen: set[str]) -> str:
    module = str(names.get("__name__"))
    if module in seen or module.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return ""
    seen.add(module)
    found = next((name for name, value in list(names.items()) if value is target), None)
    return f"{module}:{found}" if found is not None else ""
