"""Every regular expression in the source of both packages, and how each is used.

They are found in the syntax tree of every module: calls of `re.…` and keywords named `pattern`. Their
arguments are evaluated in the imported module, so that patterns composed of constants are complete.
A pattern that depends on local variables cannot be evaluated and is returned unresolved.
"""

import ast
import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import tracereel
import tracereel_collector

FUNCTIONS = {
    "match": "match",
    "fullmatch": "fullmatch",
    **dict.fromkeys(("search", "sub", "subn", "findall", "finditer", "split"), "search"),
}
"""Method of a pattern → the mode in which it reads a text."""
MODES = ("search", "match", "fullmatch")
_UNTOUCHED = frozenset({"pattern", "flags", "groups", "groupindex"})


@dataclass(frozen=True)
class Found:
    """A pattern: its location, source and modes of use."""

    where: str
    source: str
    pattern: "re.Pattern[str] | re.Pattern[bytes] | None"
    modes: tuple[str, ...] = MODES


@cache
def modules() -> dict[str, ModuleType]:
    """Import and return every module of both packages."""
    found = {}
    for package in (tracereel, tracereel_collector):
        found[package.__name__] = package
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not info.name.endswith("__main__"):
                found[info.name] = importlib.import_module(info.name)
    return found


@cache
def tree_of(name: str) -> ast.Module:
    """Return the syntax tree of a module, with the parent of each node."""
    path = modules()[name].__file__
    assert path is not None
    tree = ast.parse(Path(path).read_text())
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node  # type: ignore[attr-defined]
    return tree


def all_patterns() -> list[Found]:
    """Return every pattern, in the order of the modules."""
    return [each for name in modules() for each in _in_module(name)]


def _in_module(name: str) -> Iterator[Found]:
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.ImportFrom) and node.module == "re":
            raise AssertionError(f"{name}: import re and call re.…: the walk looks for that")
        if isinstance(node, ast.Import) and any(a.name == "re" and a.asname for a in node.names):
            raise AssertionError(f"{name}: import re under its own name")
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id == "re"
            and (function.attr in FUNCTIONS or function.attr == "compile")
        ):
            yield _found(name, node, function.attr)
        for keyword in node.keywords:
            if keyword.arg == "pattern":
                pattern = _evaluated(name, keyword.value)
                if isinstance(pattern, str):
                    yield Found(name, ast.unparse(keyword.value), re.compile(pattern), ("search",))
                else:
                    yield Found(name, ast.unparse(keyword.value), None)


def _found(name: str, call: ast.Call, function: str) -> Found:
    source = ast.unparse(call.args[0])
    pattern = _evaluated(name, call.args[0])
    flags = [*call.args[1:2], *(each.value for each in call.keywords if each.arg == "flags")]
    if not isinstance(pattern, (str, bytes)):
        return Found(name, source, None)
    if function != "compile":
        return Found(name, source, re.compile(pattern), (FUNCTIONS[function],))
    number = _evaluated(name, flags[0]) if flags else 0
    compiled = re.compile(pattern, number if isinstance(number, int) else 0)
    return Found(name, source, compiled, _modes(name, call, compiled))


def _evaluated(name: str, node: ast.expr) -> object:
    code = compile(ast.Expression(node), name, "eval")
    try:
        return eval(code, vars(modules()[name]))
    except NameError:
        return None


def _modes(
    name: str, call: ast.Call, compiled: "re.Pattern[str] | re.Pattern[bytes]"
) -> tuple[str, ...]:
    """Return the modes of all uses of a compiled pattern; all modes if a use is unclear."""
    parent = call.parent  # type: ignore[attr-defined]
    if isinstance(parent, ast.Attribute):
        return (FUNCTIONS[parent.attr],)
    if not isinstance(parent, (ast.Assign, ast.AnnAssign)):
        return MODES
    (target,) = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
    if not isinstance(target, ast.Name):
        return MODES
    modes: set[str] = set()
    for other, module in modules().items():
        # An import elsewhere is the same object, perhaps under the same name.
        if vars(module).get(target.id) is not vars(modules()[name]).get(target.id):
            continue
        for node in ast.walk(tree_of(other)):
            if isinstance(node, ast.Name) and node.id == target.id and node is not target:
                use = node.parent  # type: ignore[attr-defined]
                if not isinstance(use, ast.Attribute):
                    return MODES
                if use.attr not in _UNTOUCHED:
                    modes.add(FUNCTIONS[use.attr])
            elif isinstance(node, ast.Attribute) and node.attr == target.id:
                return MODES
    return tuple(sorted(modes)) or MODES
