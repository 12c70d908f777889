"""Where a run began: the function that a tape names, loaded, with its recorded arguments."""

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any, Final

from tracereel.tape import classes
from tracereel.tape.format import Tape, TapeError

_VARARG: Final = re.compile(r"arg\d+")
_OTHERWISE: Final = (
    "say what to call (--run module:function, run.call(function)), or call your code inside"
    " `with tracereel.replay(…)`"
)


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
        if "'self'" in str(error):
            raise TapeError(
                f"{name} is a method, and its object is not on the tape: name the object"
                " (--run module:object.method, run.call(object.method)), a function that makes it"
                " (--run module:function), or call your code inside `with tracereel.replay(…)`"
            ) from error
        raise TapeError(
            f"{name} cannot be called with what is on the tape ({', '.join(given) or 'nothing'}):"
            f" {error}; {_OTHERWISE}"
        ) from error
    return args, kwargs


def load_function(path: str, folder: str = "") -> Any:
    """What `module:function` names, or `module:object.method`; the working directory is searched too.

    Args:
        folder: where the program was, seen from where it was started.

    Raises:
        TapeError: there is none.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise TapeError(f"{path!r} names no function; expected module:function")
    if "<locals>" in name:
        raise TapeError(
            f"{path!r} was made inside a function, where nobody else can reach it; {_OTHERWISE}"
        )
    here = Path.cwd()
    inside = (here / folder).resolve()
    # A tape may be of somebody else's making: nothing is loaded from outside of where one stands.
    for each in (inside, here) if inside.is_relative_to(here) else (here,):
        if str(each) not in sys.path:
            sys.path.insert(0, str(each))
    found = _module(path, module_name)
    for part in name.split("."):
        if part == "<locals>":
            raise TapeError(
                f"{path!r} was made inside a function, where nobody else can reach it; {_OTHERWISE}"
            )
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise TapeError(f"{path!r} is not there ({error}); {_OTHERWISE}") from error
    if not callable(found):
        raise TapeError(f"{path!r} is not a function but {found!r}")
    return found


def _module(path: str, module_name: str) -> Any:
    if module_name == "?":
        raise TapeError(f"the function that began the run has no module; {_OTHERWISE}")
    if module_name == classes.started_as():
        return sys.modules["__main__"]
    if module_name == "__main__":
        raise TapeError(
            f"{path!r} was typed in, or given with -c: it is in no file that could be loaded;"
            f" {_OTHERWISE}"
        )
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise TapeError(
                f"{path!r} cannot be loaded: there is no module {error.name!r} here"
                f" ({Path.cwd()}). Run this in the program's folder, in its environment; or"
                f" {_OTHERWISE}"
            ) from error
        raise TapeError(
            f"{path!r} cannot be loaded: it needs {error.name!r}, which is not installed here"
        ) from error
    except Exception as error:
        raise TapeError(
            f"{path!r} cannot be loaded: its module raises {type(error).__name__}: {error}"
        ) from error


def entry_point(tape: Tape) -> Any:
    """The function that a tape says the run began with.

    Raises:
        TapeError: there is none.
    """
    path = tape.header.get("entry")
    if not path:
        raise TapeError(
            "the run did not begin with a function but with a block, which nobody else can enter;"
            f" {_OTHERWISE}"
        )
    return load_function(str(path), str(tape.header.get("folder") or ""))
