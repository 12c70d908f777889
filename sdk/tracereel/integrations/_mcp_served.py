"""Tools of MCP servers as tape boundaries, also without our wrapper."""

import functools
from typing import Any, Final

from tracereel.integrations import _framework_boundary, _packages, mcp

with _packages.needed("mcp"):
    from mcp.client.session import ClientSession

_MARK: Final = "__tracereel_served__"


def install() -> None:
    """Serve the tools that any session calls; repeated calls have no effect."""
    real = vars(ClientSession)["call_tool"]
    if not hasattr(real, _MARK):
        ClientSession.call_tool = _served(real)  # type: ignore[method-assign]


def _served(real: Any) -> Any:
    @functools.wraps(real)
    async def call_tool(self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if not _framework_boundary.is_needed():
            return await real(self, name, *args, **kwargs)
        made: list[Any] = []

        async def work() -> Any:
            made.append(await real(self, name, *args, **kwargs))
            return mcp.as_plain(made[0])

        given = args[0] if args else kwargs.get("arguments")
        inputs = given if isinstance(given, dict) else {}
        answer = await _framework_boundary.call_async(str(name), "", inputs, work)
        return made[0] if made else mcp.result_of(answer)

    call_tool.__dict__[_MARK] = True
    return call_tool
