"""LangChain tools and retrievers as tape boundaries: recorded, and served in a re-execution.

Callbacks only report a call and cannot return its result. So the methods that do the work (`_run`,
`_get_relevant_documents` and their async versions) are wrapped, class by class, at first use. The
wrappers act only inside a call that a handler has reported, while a tape is recorded or played.
"""

import functools
import inspect
from typing import Any, Final

from tracereel._core import context, replay_guard, tape_session
from tracereel._core.executions.scope import ExecutionScope
from tracereel.integrations import _framework_boundary, _packages

with _packages.needed("langchain"):
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import BaseTool

_OPEN: Final = "call_of_a_framework"
"""Note on an execution whose call has begun but whose work has not."""
EFFECT: Final = "effect"
_OF_FRAMEWORK: Final = ("config", "run_manager")
_WORK: Final = {
    BaseTool: ("_run", "_arun"),
    BaseRetriever: ("_get_relevant_documents", "_aget_relevant_documents"),
}
_ENTRIES: Final = {BaseTool: ("run", "arun"), BaseRetriever: ("invoke", "ainvoke")}
_known: Final[set[type]] = {BaseTool, BaseRetriever}


def install() -> None:
    """Wrap the entry methods of all tools and retrievers; repeated calls have no effect."""
    for base, names in _ENTRIES.items():
        for name in names:
            entry = vars(base)[name]
            if not hasattr(entry, "__tracereel_entry__"):
                setattr(base, name, _entry(entry))


def opened(scope: ExecutionScope) -> None:
    """Mark a call that a handler has reported, so that its work may be served."""
    scope.execution.notes[_OPEN] = scope


def _entry(method: Any) -> Any:
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def enter_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            _prepare(type(self))
            return await method(self, *args, **kwargs)

        return _marked(enter_async)

    @functools.wraps(method)
    def enter(self: Any, *args: Any, **kwargs: Any) -> Any:
        _prepare(type(self))
        return method(self, *args, **kwargs)

    return _marked(enter)


def _marked(entry: Any) -> Any:
    entry.__dict__["__tracereel_entry__"] = True
    return entry


def _prepare(kind: type) -> None:
    """Wrap the working methods of a class and its bases, once."""
    if kind in _known:
        return
    for base, names in _WORK.items():
        for each in kind.__mro__:
            if each in _known or base not in each.__mro__:
                continue
            for name in names:
                work = vars(each).get(name)
                if inspect.isfunction(work):
                    setattr(each, name, _worker(work))
            _known.add(each)


def _worker(work: Any) -> Any:
    if inspect.iscoroutinefunction(work):

        @functools.wraps(work)
        async def run_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            call = _begin(self, "async")
            if call is None:
                if not _unreported(self):
                    return await work(self, *args, **kwargs)
                return await _framework_boundary.call_async(
                    *(self.name, _effect_of(self), _inputs(args, kwargs)),
                    lambda: work(self, *args, **kwargs),
                )
            return await tape_session.run_async(call, work, (self, *args), kwargs)

        return run_async

    @functools.wraps(work)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = _begin(self, "sync")
        if call is None:
            if not _unreported(self):
                return work(self, *args, **kwargs)
            return _framework_boundary.call(
                *(self.name, _effect_of(self), _inputs(args, kwargs)),
                lambda: work(self, *args, **kwargs),
            )
        return tape_session.run(call, work, (self, *args), kwargs)

    return run


def _begin(owner: Any, form: str) -> Any:
    """Begin the call on its tape.

    Return `None` without a tape, or if the work is part of a call that has begun.
    """
    execution = context.current_execution()
    if execution is None or (scope := execution.notes.pop(_OPEN, None)) is None:
        return None
    session = scope.recorder.tape
    if session is None:
        return None
    execution.notes[_framework_boundary.BEGUN] = True
    effect = _effect_of(owner) if isinstance(owner, BaseTool) else "read"
    begun = session.begin(
        execution,
        around=execution.parent,
        kind=execution.kind,
        name=execution.name,
        function=None,
        arguments=scope.arguments,
        form=form,
        effect=effect,
    )
    if replay_guard.engaged:
        tape_session.check(begun, execution.kind, execution.name, effect, execution.parent)
    return begun


def _unreported(owner: Any) -> bool:
    """Return whether no handler has reported this call of a tool, which a tape should have."""
    return (
        isinstance(owner, BaseTool)
        and _framework_boundary.is_needed()
        and _framework_boundary.traced_inside(_function_of(owner)) is None
    )


def _inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a tool, without those of the framework."""
    given = {f"arg{place}": value for place, value in enumerate(args)}
    given |= {name: value for name, value in kwargs.items() if name not in _OF_FRAMEWORK}
    return given


def _function_of(owner: Any) -> Any:
    return getattr(owner, "func", None) or getattr(owner, "coroutine", None)


def _effect_of(tool: BaseTool) -> str:
    """Return the effect of a tool from its metadata or its traced function."""
    effect = (tool.metadata or {}).get(EFFECT)
    return effect or getattr(_function_of(tool), "__tracereel_effect__", None) or ""
