"""Calls of frameworks' tools as tape boundaries, with or without a handler that reports them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tracereel._core import context, replay_guard, tape_session
from tracereel._core import recorder as _recorder
from tracereel._core.wrapping import BOUNDARY
from tracereel.decorators import traced_tool

BEGUN: Final = "work_of_a_framework"
"""Note on an execution whose work is a boundary already."""
_MAX_DEPTH: Final = 4


def is_needed() -> bool:
    """Return whether a tape is recorded or played here, or the process is guarded."""
    if replay_guard.engaged and replay_guard.here() is not None:
        return True
    recorder = _recorder.active()
    return recorder is not None and recorder.tape is not None


def call(name: str, effect: str, inputs: Mapping[str, Any], work: Callable[[], Any]) -> Any:
    """Make a plain call through a boundary."""
    execution = context.current_execution()
    if execution is None or execution.kind != "tool":
        return traced_tool(name, effect=effect or None)(_marked(work))(**inputs)
    if _is_inside(name, effect):
        return work()
    return tape_session.run(_begun(execution, name, effect, inputs, "sync"), work, (), {})


async def call_async(
    name: str, effect: str, inputs: Mapping[str, Any], work: Callable[[], Any]
) -> Any:
    """Make a call that is awaited through a boundary."""
    execution = context.current_execution()
    if execution is None or execution.kind != "tool":
        return await traced_tool(name, effect=effect or None)(_marked_async(work))(**inputs)
    if _is_inside(name, effect):
        return await work()
    begun = _begun(execution, name, effect, inputs, "async")
    return await tape_session.run_async(begun, work, (), {})


def _is_inside(name: str, effect: str) -> bool:
    """Return whether the current call is the work of a boundary already."""
    execution = context.current_execution()
    recorder = _recorder.active()
    if execution is None or recorder is None or recorder.tape is None:
        replay_guard.check_tool("tool", name, effect, execution)
        return True
    if BEGUN not in execution.notes and execution.name == name:
        return False
    if execution.name != name:
        replay_guard.check_tool("tool", name, effect, execution)
    return True


def _begun(execution: Any, name: str, effect: str, inputs: Mapping[str, Any], form: str) -> Any:
    """Begin the call that a handler has reported, on its tape."""
    execution.notes[BEGUN] = True
    recorder: Any = _recorder.active()
    begun = recorder.tape.begin(
        execution,
        around=execution.parent,
        kind="tool",
        name=name,
        function=None,
        arguments=dict(inputs),
        form=form,
        effect=effect,
    )
    if replay_guard.engaged:
        tape_session.check(begun, "tool", name, effect, execution.parent)
    return begun


def _marked(work: Callable[[], Any]) -> Callable[..., Any]:
    def tool(**_: Any) -> Any:
        _mark()
        return work()

    return tool


def _marked_async(work: Callable[[], Any]) -> Callable[..., Any]:
    async def tool(**_: Any) -> Any:
        _mark()
        return await work()

    return tool


def _mark() -> None:
    if (execution := context.current_execution()) is not None:
        execution.notes[BEGUN] = True


def traced_inside(function: Any, depth: int = _MAX_DEPTH) -> Any:
    """Return the traced tool that a framework's function leads to, or `None`."""
    function = getattr(function, "__func__", function)
    marks = getattr(function, "__dict__", {})
    if (boundary := marks.get(BOUNDARY)) is not None and boundary[0] == "tool":
        return function
    if depth == 0:
        return None
    for cell in getattr(function, "__closure__", None) or ():
        try:
            inside = cell.cell_contents
        except ValueError:  # an empty cell
            continue
        if callable(inside) and (found := traced_inside(inside, depth - 1)) is not None:
            return found
    return None
