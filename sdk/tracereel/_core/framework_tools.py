"""Frameworks that run tools by themselves, and the modules that make those tools boundaries.

A tool of such a framework is no decorated function, so without this a tape would not have it, and a
replay would run it. The modules are loaded when a tape is recorded or played and the framework is.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

from tracereel.errors import NotAllowedError

HOMES: Final = {
    "langchain_core.tools": "tracereel.integrations._langchain_served",
    "agents.tool": "tracereel.integrations._agents_served",
    "mcp.client.session": "tracereel.integrations._mcp_served",
    "pydantic_ai.toolsets": "tracereel.integrations._pydantic_ai_served",
}
"""Module that is loaded when a framework is in use, and the module that serves its tools."""
UNSUPPORTED: Final = {"crewai": "CrewAI"}
"""Frameworks whose tools can be neither recorded nor served."""
problems: Final[dict[str, str]] = {}
"""Loaded frameworks whose tools are no boundaries, and why."""


def install() -> None:
    """Make the tools of the loaded frameworks boundaries."""
    for module, home in HOMES.items():
        if module in sys.modules:
            try:
                importlib.import_module(home).install()
                problems.pop(module, None)
            except Exception as error:  # noqa: BLE001 - an older or newer framework
                problems[module] = (
                    f"this version is not supported ({type(error).__name__}: {error})"
                )


def unserved() -> str:
    """Return why the tools of a loaded framework would run silently, or an empty string."""
    install()
    for module, name in UNSUPPORTED.items():
        if module in sys.modules:
            return _unsupported(name)
    for module, why in problems.items():
        return f"the tools of {module} would run for real: {why}"
    return ""


def _unsupported(name: str) -> str:
    return (
        f"{name} is in use, and its tools can be neither recorded nor served: a replay would run"
        " them for real. Put them behind traced tools, in a program that does not import it"
    )


class _Finder:
    """Import hook that makes the tools of a framework boundaries when it is imported later."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a framework's module and watch its end of import; leave all others alone."""
        if name in UNSUPPORTED and any(applies() for applies in tuple(_watching)):
            raise NotAllowedError(_unsupported(UNSUPPORTED[name]))
        if name not in HOMES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            real: Any = spec.loader
            run = real.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                install()

            real.exec_module = exec_module
        return spec


_finder: Final = _Finder()
_watching: Final[list[Callable[[], bool]]] = []
"""For each watch, whether the calling code may not import what is unsupported."""


def watch_imports(applies: Callable[[], bool]) -> None:
    """Serve the tools of frameworks that are imported from now on; refuse unsupported ones.

    Args:
        applies: whether the calling code may not import an unsupported framework.
    """
    _watching.append(applies)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def stop_watching(applies: Callable[[], bool]) -> None:
    """Undo `watch_imports`."""
    if applies in _watching:
        _watching.remove(applies)
    if not _watching and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
