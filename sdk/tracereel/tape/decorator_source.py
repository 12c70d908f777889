"""Decorators of a function that exists only while its outer one runs, read from the source.

A nested function cannot be looked up, so its source decides whether it may still be a boundary. What
cannot be known for certain may be one.
"""

import ast
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tracereel.tape import modules
from tracereel.tape.format import TapeError

MAX_DEPTH: Final = 4
"""Functions and modules that are followed from a decorator."""
_OWN: Final = "tracereel"
_FRAMEWORKS: Final = frozenset({"agents", "langchain", "langchain_core", "mcp", "pydantic_ai"})
"""Packages whose decorators make tools that are boundaries of their own."""
_Import = tuple[str, int]
"""Module and level of an import."""


def may_trace(decorator: ast.expr, source: ast.Module, tool: str) -> bool:
    """Return whether a decorator may make a function the boundary of a tool."""
    if any(isinstance(node, ast.Constant) and node.value == tool for node in ast.walk(decorator)):
        return True
    root: Any = decorator
    while isinstance(root, (ast.Call, ast.Attribute)):
        root = root.func if isinstance(root, ast.Call) else root.value
    return not isinstance(root, ast.Name) or _name_may(root.id, source, MAX_DEPTH)


def source_of(file: str) -> ast.Module | None:
    """Return the parsed source of a file, if it can be read."""
    try:
        changed = Path(file).stat().st_mtime_ns
    except OSError:
        changed = 0
    return _source(file, changed)


def project_file(module_name: str) -> str | None:
    """Return the file of a module; `None` if it is not of the project, empty if there is none."""
    try:
        return modules.file_of(module_name)
    except TapeError as error:
        return "" if "there is no module" in str(error) else None


@lru_cache(maxsize=64)
def _source(file: str, _changed: int) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _name_may(name: str, source: ast.Module, depth: int) -> bool:
    """Return whether what a module has under a name may lead to a decorator of tracereel."""
    if depth == 0:
        return True
    for node in ast.walk(source):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - {name}
            own = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
            return any(
                _is_of_module(each, source) and _name_may(each, source, depth - 1)
                for each in used - own
            )
        if (imported := _imported_as(node, name)) is not None:
            return _module_may(*imported, depth - 1)
    return True


def _is_of_module(name: str, source: ast.Module) -> bool:
    """Return whether a module imports a name or defines a function of it."""
    return any(
        (isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name)
        or _imported_as(node, name) is not None
        for node in ast.walk(source)
    )


def _imported_as(node: ast.AST, name: str) -> _Import | None:
    """Return what a statement imports as a name."""
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return None
    for each in node.names:
        if (each.asname or each.name.partition(".")[0]) == name:
            if isinstance(node, ast.Import):
                return each.name, 0
            return node.module or "", node.level
    return None


def _module_may(module_name: str, level: int, depth: int) -> bool:
    """Return whether a module may have decorators that lead to those of tracereel."""
    package = module_name.partition(".")[0]
    if level or package == _OWN or package in _FRAMEWORKS or depth <= 0:
        return True
    if package in sys.stdlib_module_names:
        return False
    file = project_file(module_name)
    source = source_of(file) if file else None
    if source is None:
        return file == ""
    imports = [node for node in ast.walk(source) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return any(
        _module_may(
            *(_imported_as(node, each.asname or each.name.partition(".")[0]) or ("", 1)), depth - 1
        )
        for node in imports
        for each in node.names
    )
