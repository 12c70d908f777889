"""Tools of a tape, looked up before a replay starts.

A replay serves a tool because its decorator catches the call. If a refactor has removed the
decorator, the function would simply run. So each recorded tool must still be a boundary here.
"""

import ast
from collections.abc import Container
from types import FunctionType
from typing import Any, Final

from tracereel._core.wrapping import BOUNDARY, paths_of
from tracereel.tape import classes, modules
from tracereel.tape.decorator_source import may_trace, project_file, source_of
from tracereel.tape.format import Call, Tape, TapeError
from tracereel.tape.text import is_dotted, printable

_ADVICE: Final = "a replay would run it for real: put the decorator back, or record the run again"


def check_tools(tape: Tape, *, loaded: bool, allowed: Container[str] = ()) -> None:
    """Check that each tool of a tape is still a boundary of the program.

    Args:
        loaded: whether the program is loaded, so that a module that cannot be found is missing.
        allowed: names of tools that may run for real.

    Raises:
        TapeError: one is not, with its name.
    """
    seen: set[tuple[str, str]] = set()
    for call in tape.calls.values():
        key = call.name, call.function
        if call.kind != "tool" or call.form == "block" or not call.function or key in seen:
            continue
        if call.name in allowed:
            continue
        seen.add(key)
        if problem := _problem(call, loaded=loaded):
            name, path = printable(call.name), printable(call.function)
            raise TapeError(f"the tool {name} ({path}) {problem}; {_ADVICE}")


def _problem(call: Call, *, loaded: bool) -> str:
    """Return why a recorded tool is no boundary of this process, or an empty string."""
    known = paths_of(call.kind, call.name)
    module_name, _, name = call.function.partition(":")
    registered = call.function in known or f"__main__:{name}" in known
    if registered and (call.apart or "<locals>" in name):
        return ""
    if not is_dotted(module_name) or module_name == "?":
        return ""
    if module_name.startswith("tracereel.") and not module_name.startswith("tracereel.demo"):
        return ""  # a client that an integration wraps
    module = classes.loaded(module_name)
    if module is None or "<locals>" in name:
        file = (
            getattr(module, "__file__", None) if module is not None else project_file(module_name)
        )
        if file == "":
            return "is no longer there" if loaded and not known else ""
        return _problem_in_source(call, file, name, known=bool(known)) if file else ""
    found: Any = module
    for part in name.split("."):
        try:
            found = modules.member(found, part)
        except KeyError:
            return "" if known else "is no longer there"
    found = found.__func__ if type(found) in (classmethod, staticmethod) else found
    if type(found) is not FunctionType:
        return "" if known else "is no function any more"
    boundary = vars(found).get(BOUNDARY)
    return "" if boundary is not None and boundary[0] == call.kind else "has no decorator any more"


def _problem_in_source(call: Call, file: str, name: str, *, known: bool) -> str:
    """Look a tool up in the source of its module, which is not imported for that."""
    source = source_of(file)
    if source is None:
        return ""
    names = name.replace(".<locals>", "").split(".")
    function = _definition(source, names)
    if function is not None:
        traced = known or any(
            may_trace(each, source, call.name) for each in function.decorator_list
        )
        return "" if traced else "has no decorator any more"
    texts = {node.value for node in ast.walk(source) if isinstance(node, ast.Constant)}
    return "" if known or call.name in texts else "is no longer there"


def _definition(source: ast.Module, names: list[str]) -> Any:
    """Return the function of a qualified name."""
    at: Any = source
    for name in names:
        inside = [
            node
            for node in ast.walk(at)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            and node.name == name
            and node is not at
        ]
        if not inside:
            return None
        at = inside[-1]
    return None if isinstance(at, ast.ClassDef) else at
