"""The promise that recording never hurts the recorded: our errors are counted and logged once.

In our tests (`TRACEREEL_RAISE_INTERNAL_ERRORS=1`) the same errors are raised, so that none hides.

An exception that a signal handler of the program's raises while our code runs is none of ours: it
goes on to the program, as it would from anywhere else (`pass_on`).
"""

import logging
import os
import signal
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Final, Literal

RAISE_ENV: Final = "TRACEREEL_RAISE_INTERNAL_ERRORS"

log: Final = logging.getLogger("tracereel")
"""Operational messages of the SDK itself (delivery trouble, ignored values, our own errors)."""

# A program that has set up no logging would have warnings, and the lines of failed agents, printed on
# its standard error by the library's last resort: it did not ask for them.
log.addHandler(logging.NullHandler())

errors: Final[Counter[str]] = Counter()
"""Internal errors by place, for this process."""

_VARARGS: Final = 0x04
"""Flag of code that takes `*args`; their tuple follows the other arguments among its variables."""

_listeners: Final[list[Callable[[str], None]]] = []
_said: Final[set[str]] = set()


def raising() -> bool:
    """Whether internal errors are raised instead of swallowed."""
    return os.environ.get(RAISE_ENV, "") not in ("", "0", "false", "no", "off")


def listen(listener: Callable[[str], None]) -> None:
    """Have the counting of internal errors repeated somewhere else (the metrics); one at a time."""
    _listeners[:] = [listener]


def report(where: str, error: Exception) -> None:
    """Account for an error of ours: count it, log the first of its place; raise it in our tests."""
    if raising():
        raise error
    pass_on(error)
    errors[where] += 1
    for listener in _listeners:
        try:
            listener(where)
        except Exception:  # noqa: BLE001 - the last line of defence has nobody left to tell
            pass
    warn_once(f"internal:{where}", "tracereel: internal error in %s: %r", where, error)


def pass_on(error: BaseException) -> None:
    """Raise an exception again if a signal handler has raised it."""
    if by_signal(error):
        raise error


def by_signal(error: BaseException) -> bool:
    """Whether a signal handler of the program's has raised an exception.

    Looks at the traceback, so it costs something only where something was raised. A handler is called
    with the frame it interrupts, and that is the frame it was entered from: no ordinary call is like
    that. One that has thrown that argument away is known by being installed.
    """
    others: set[CodeType] = set()
    tb = error.__traceback__
    while tb is not None:
        frame = tb.tb_frame
        if _is_handler(frame):
            return True
        if not str(frame.f_globals.get("__name__")).startswith("tracereel."):
            others.add(frame.f_code)
        tb = tb.tb_next
    # Most of what is asked about was raised in our own code: then nothing has to be looked up.
    return bool(others) and not others.isdisjoint(_handlers())


def _is_handler(frame: FrameType) -> bool:
    code, interrupted = frame.f_code, frame.f_back
    given = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & _VARARGS)
    for name in code.co_varnames[:given]:
        value = frame.f_locals.get(name)
        if type(value) is tuple:
            if any(each is interrupted for each in value if type(each) is FrameType):
                return True
        elif type(value) is FrameType and value is interrupted:
            return True
    return False


def _handlers() -> set[CodeType]:
    """The code of the functions that are installed as signal handlers."""
    found: set[CodeType] = set()
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if callable(handler):
            inner = getattr(handler, "__func__", getattr(handler, "func", handler))
            code = getattr(inner, "__code__", None)
            if type(code) is CodeType:
                found.add(code)
    return found


def warn_once(key: str, message: str, *args: object) -> None:
    """Log a warning the first time its key is seen in this process."""
    if key not in _said:
        _said.add(key)
        say(logging.WARNING, message, *args)


def say(level: int, message: str, *args: object, with_traceback: bool = False) -> None:
    """Log something of ours; a handler of the program's that raises is none of our callers' business."""
    try:
        log.log(level, message, *args, exc_info=with_traceback)
    except Exception:  # noqa: BLE001 - there is nobody left to tell
        errors["logging"] += 1


def forget_warning(key: str) -> None:
    """Let a warning be given again, because the trouble it named has passed in between."""
    _said.discard(key)


class Guard:
    """Context that keeps our errors from its surroundings; never touches other exceptions' flow."""

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> Literal[True] | None:
        if not isinstance(error, Exception):
            return None
        report(self._where, error)
        return True
