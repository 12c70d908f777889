"""Where a run began: the function that a tape names, loaded, with its recorded arguments."""

import importlib
import inspect
import os
import re
import sys
from typing import Any, Final

from tracereel.tape.format import Tape, TapeError

_VARARG: Final = re.compile(r"arg\d+")


def bound(target: Any, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a tape as a function takes them; none if it takes no such."""
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):
        return (), dict(given)
    values, args = dict(given), []
    kinds = {each.kind for each in parameters.values()}
    rest = sorted(
        (name for name in values if _VARARG.fullmatch(name)), key=lambda name: int(name[3:])
    )
    spread = bool(rest) and inspect.Parameter.VAR_POSITIONAL in kinds
    for parameter in parameters.values():
        positional = parameter.kind is parameter.POSITIONAL_ONLY or (
            spread and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        )
        if positional and parameter.name in values:
            args.append(values.pop(parameter.name))
    if spread:
        args += [values.pop(name) for name in rest]
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return tuple(args), values
    return tuple(args), {name: value for name, value in values.items() if name in parameters}


def fitting(target: Any, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a tape as a function takes them, all that it needs."""
    args, kwargs = bound(target, given)
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return args, kwargs
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(target, "__qualname__", str(target))
        method = (
            " It is a method, and its object is not on the tape." if "self" in str(error) else ""
        )
        raise TapeError(
            f"{name} cannot be called with what is on the tape: {error}.{method}"
            " Name a function that begins the run (--run module:function, run.call(function)),"
            " or call your code inside `with tracereel.replay(…)`"
        ) from error
    return args, kwargs


def load_function(path: str) -> Any:
    """The function that `module:name` names; the working directory is searched too.

    Raises:
        TapeError: there is none.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise TapeError(f"{path!r} names no function; expected module:function")
    if os.getcwd() not in sys.path:  # noqa: PTH109 - what the interpreter compares with is a string
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise TapeError(
            f"{path!r} cannot be loaded: {error}. Run this in the program's folder, or say what to"
            " call: --run module:function, or run.call(function)"
        ) from error
    if not callable(found):
        raise TapeError(f"{path!r} is not a function but {found!r}")
    return found


def entry_point(tape: Tape) -> Any:
    """The function that a tape says the run began with."""
    path = tape.header.get("entry")
    if not path:
        raise TapeError(
            "the run did not begin with a function: call the code that made it yourself"
        )
    return load_function(str(path))
