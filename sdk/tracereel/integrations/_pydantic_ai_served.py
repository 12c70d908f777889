"""Tools and output functions of pydantic-ai as tape boundaries, also without our capability."""

import functools
from typing import Any, Final

from tracereel.integrations import _compat, _framework_boundary, _packages

with _packages.needed("pydantic-ai"):
    from pydantic_ai.toolsets import AbstractToolset

_MARK: Final = "__tracereel_served__"


def install() -> None:
    """Serve output functions, and the tools of all toolsets that are defined so far."""
    module, names = _compat.pydantic_ai_outputs()
    for name in names:
        if not hasattr(real := getattr(module, name), _MARK):
            setattr(module, name, _served_output(real))
    waiting: list[Any] = [AbstractToolset]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        own = vars(kind).get("call_tool")
        if own is not None and not hasattr(own, _MARK):
            kind.call_tool = _served(own)


def _served(real: Any) -> Any:
    @functools.wraps(real)
    async def call_tool(self: Any, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        def work() -> Any:
            return real(self, name, tool_args, ctx, tool)

        definition = getattr(tool, "tool_def", None)
        if (
            getattr(definition, "kind", None) == "output"
            or not _framework_boundary.is_needed()
            or _traced(tool) is not None
        ):
            return await work()
        effect = (getattr(definition, "metadata", None) or {}).get("effect") or ""
        given = dict(tool_args) if isinstance(tool_args, dict) else {"input": tool_args}
        return await _framework_boundary.call_async(name, effect, given, work)

    call_tool.__dict__[_MARK] = True
    return call_tool


def _served_output(real: Any) -> Any:
    """Wrap what calls the output function that a model has chosen."""

    @functools.wraps(real)
    async def execute(chosen: Any, /, *args: Any, **kwargs: Any) -> Any:
        def work() -> Any:
            return real(chosen, *args, **kwargs)

        function = getattr(chosen, "function", chosen)
        if (
            not _framework_boundary.is_needed()
            or _framework_boundary.traced_inside(function) is not None
        ):
            return await work()
        name = str(getattr(function, "__name__", type(function).__name__))
        given = kwargs.get("args")
        return await _framework_boundary.call_async(
            name, "", given if isinstance(given, dict) else {}, work
        )

    execute.__dict__[_MARK] = True
    return execute


def _traced(tool: Any) -> Any:
    """Return the traced tool that does the work, or `None`; tools of tools are looked through."""
    for _ in range(8):
        schema = getattr(getattr(tool, "call_func", None), "__self__", None)
        function = getattr(schema, "function", None)
        if function is not None:
            return _framework_boundary.traced_inside(function)
        tool = getattr(tool, "source_tool", None) or getattr(tool, "original_tool", None)
        if tool is None:
            return None
    return None
