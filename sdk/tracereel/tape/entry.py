"""Entry point of a recorded run: loads its function and binds the recorded arguments."""

import inspect
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Final

from tracereel._core import framework_entries
from tracereel._core.wrapping import BOUNDARY, TRACED
from tracereel.tape import classes, modules
from tracereel.tape.format import Tape, TapeError
from tracereel.tape.text import is_dotted

_VARARG: Final = re.compile(r"arg\d+")
_OTHERWISE: Final = (
    "say what to call (--run module:function, run.call(function)), or call your code inside"
    " `with tracereel.replay(…)`"
)


def bound(target: Any, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Bind recorded arguments to a function; drop those that it does not accept.

    Raises:
        TapeError: an argument is missing.
    """
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return (), dict(given)
    parameters, values, args = signature.parameters, dict(given), []
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
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        values = {name: value for name, value in values.items() if name in parameters}
    try:
        signature.bind(*args, **values)
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
    return tuple(args), values


def load_function(path: str) -> Any:
    """Load `module:function` or `module:object.method`; for names typed by the user.

    The working directory is searched too. Names from a tape go through `entry_point`.
    """
    module_name, name = _split(path)
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    found: Any = classes.loaded(module_name) or modules.imported(path)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise TapeError(f"{path!r} is not there ({error}); {_OTHERWISE}") from error
    if not callable(found):
        raise TapeError(f"{path!r} is not a function but {found!r}")
    return found


def _split(path: str) -> tuple[str, str]:
    """Split `module:name` into two dotted identifiers."""
    module_name, _, name = path.partition(":")
    if "<locals>" in name:
        raise TapeError(
            f"{path!r} was made inside a function, where nothing else can reach it; {_OTHERWISE}"
        )
    if module_name == "?":
        raise TapeError(f"the function that began the run has no module; {_OTHERWISE}")
    if not is_dotted(module_name) or not is_dotted(name):
        raise TapeError(f"{path!r} names no function; expected module:function")
    if module_name == "__main__" and classes.started_as() != "__main__":
        raise TapeError(
            f"{path!r} was typed in, or given with -c: it is in no file that could be loaded;"
            f" {_OTHERWISE}"
        )
    return module_name, name


def entry_point(tape: Tape, announce: modules.Announce | None = None) -> Any:
    """Load the entry point that a tape names; it must have a tracereel decorator.

    A tape is untrusted data, so the user must name any other function explicitly.

    Args:
        announce: callback that receives a line of text before a module is imported.
    """
    given = tape.header.get("entry")
    if not given:
        raise TapeError(
            "the run did not begin with a function but with a block, which cannot be called;"
            f" {_OTHERWISE}"
        )
    path = str(given)
    name = _split(path)[1]
    owner: Any = None
    found: Any = modules.for_tape(path, str(tape.header.get("folder") or ""), announce)
    for part in name.split("."):
        try:
            owner, found = found, modules.member(found, part)
        except KeyError:
            raise TapeError(f"{path!r} is not there; {_OTHERWISE}") from None
    if call := tape.header.get("framework"):
        try:
            return framework_entries.load(str(call), found, str(tape.header.get("name")))
        except ValueError as error:
            raise TapeError(
                f"{path!r} cannot be called as {call}: {error}; {_OTHERWISE}"
            ) from error
    inner = found.__func__ if type(found) in (classmethod, staticmethod) else found
    if not callable(inner):
        raise TapeError(f"{path!r} is not a function but {type(inner).__name__}")
    # Check before binding, because binding may run code of the program.
    if inspect.getattr_static(inner, TRACED, None) is not True:
        raise TapeError(
            f"{path!r} is named by the tape and is not called: no decorator of tracereel is on it."
            f" If you trust it, name it yourself: --run {shlex.quote(path)}, run.call(function)"
        )
    boundary = inspect.getattr_static(inner, BOUNDARY, None)
    recorded = tape.header.get("kind"), tape.header.get("name")
    if type(boundary) is not tuple or boundary != recorded:
        raise TapeError(
            f"{path!r} is named by the tape and is not called: the tape is of the {recorded[0]}"
            f" {recorded[1]!r}, and the function is another one here. If it was renamed, name it"
            f" yourself: --run {shlex.quote(path)}, run.call(function)"
        )
    return found.__get__(None, owner) if inner is not found else found
