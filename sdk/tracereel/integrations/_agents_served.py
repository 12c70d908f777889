"""Tools of OpenAI's Agents SDK as tape boundaries, also without our trace processor."""

import functools
import inspect
import json
from typing import Any, Final

from tracereel._core import replay_guard
from tracereel.errors import NotAllowedError
from tracereel.integrations import _compat, _framework_boundary, _packages

with _packages.needed("openai-agents"):
    from agents import tool as _tool

_CALLED: Final = {
    "FunctionTool": "on_invoke_tool",
    "CustomTool": "on_invoke_tool",
    "ShellTool": "executor",
    "LocalShellTool": "executor",
}
"""Kinds of tools, and the field that holds the function that does the work."""
_OBJECTS: Final = {"ComputerTool": "computer", "ApplyPatchTool": "editor"}
"""Kinds of tools that hold an object which does the work and cannot be served."""
_REAL: Final = "__tracereel_real__"
_KEPT: Final = "__tracereel_work__"


def install() -> None:
    """Serve the tools of all agents, existing and new; repeated calls have no effect.

    The functions are fields of each tool. A property of the class takes precedence over them.
    """
    for kind, name in _CALLED.items():
        if (owner := getattr(_tool, kind, None)) is not None:
            _watch(owner, name, _called)
    for kind, name in _OBJECTS.items():
        if (owner := getattr(_tool, kind, None)) is not None:
            _watch(owner, name, _refused)


def _watch(owner: Any, name: str, given: Any) -> None:
    if isinstance(vars(owner).get(name), property):
        return

    def read(self: Any) -> Any:
        try:
            real = vars(self)[name]
        except KeyError:
            raise AttributeError(name) from None
        return given(self, real)

    def write(self: Any, value: Any) -> None:
        # A copy of a tool is made from what was read.
        vars(self)[name] = getattr(value, _REAL, value)

    setattr(owner, name, property(read, write))


def _called(tool: Any, real: Any) -> Any:
    """Return the function that a tool gives: always the same one, which the SDK checks."""
    if not callable(real) or _compat.is_agent_tool(tool):
        return real
    known = vars(tool).get(_KEPT)
    if known is not None and getattr(known, _REAL) is real:
        return known
    is_traced = _framework_boundary.traced_inside(real) is not None

    @functools.wraps(real)
    def work(*args: Any, **kwargs: Any) -> Any:
        if is_traced or not _framework_boundary.is_needed():
            return real(*args, **kwargs)

        async def made() -> Any:
            result = real(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        given = {"input": _input(args[-1])} if args else {}
        return _framework_boundary.call_async(str(tool.name), "", given, made)

    work.__dict__[_REAL] = real
    vars(tool)[_KEPT] = work
    return work


def _input(given: Any) -> Any:
    if not isinstance(given, str):
        return getattr(given, "data", None)
    try:
        return json.loads(given)
    except ValueError:
        return given


def _refused(tool: Any, real: Any) -> Any:
    guard = replay_guard.here()
    if guard is None or str(getattr(tool, "name", "")) in guard.allowed:
        return real
    text = f"{type(tool).__name__} of the Agents SDK cannot be served and would run for real"
    guard.note({"refused": text})
    raise NotAllowedError(text)
