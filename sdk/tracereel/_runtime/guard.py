"""Isolation of the program from SDK errors, which are counted and logged once.

With `TRACEREEL_RAISE_INTERNAL_ERRORS=1` (in tests) the errors are raised instead.

An exception that one of the program's signal handlers raises inside of SDK code is passed on to the
program (`pass_on`).
"""

import logging
import os
import signal
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Final, Literal

RAISE_ENV: Final = "TRACEREEL_RAISE_INTERNAL_ERRORS"

log: Final = logging.getLogger("tracereel")
"""Logger for operational messages of the SDK (delivery errors, ignored values, internal errors)."""

# Without this handler, logging's last resort would print warnings to standard error in programs
# that have not configured logging.
log.addHandler(logging.NullHandler())

errors: Final[Counter[str]] = Counter()
"""Internal errors of this process, by place."""

_VARARGS: Final = 0x04
"""Flag of code with `*args`; its tuple follows the other arguments in `co_varnames`."""

_listeners: Final[list[Callable[[str], None]]] = []
_warned: Final[set[str]] = set()


def raising() -> bool:
    """Return whether internal errors are raised instead of swallowed."""
    return os.environ.get(RAISE_ENV, "") not in ("", "0", "false", "no", "off")


def listen(listener: Callable[[str], None]) -> None:
    """Register the callback for internal errors (the metrics); it replaces an earlier one."""
    _listeners[:] = [listener]


def report(where: str, error: Exception) -> None:
    """Count an internal error and log the first of its place; raise it in tests."""
    if raising():
        raise error
    pass_on(error)
    errors[where] += 1
    for listener in _listeners:
        try:
            listener(where)
        except Exception:  # noqa: BLE001 - a failing listener must not break the caller
            pass
    warn_once(f"internal:{where}", "tracereel: internal error in %s: %r", where, error)


def pass_on(error: BaseException) -> None:
    """Raise an exception again if it comes from a signal handler."""
    if by_signal(error):
        raise error


def by_signal(error: BaseException) -> bool:
    """Return whether one of the program's signal handlers raised an exception.

    Inspects the traceback, so it only costs time after an exception. A handler receives the frame
    that it interrupted, which is also its calling frame; no ordinary call is like that. A handler
    that has deleted this argument is recognised by its registration.
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
    # Most exceptions come from SDK code only: skip the lookup then.
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
    """Return the code objects of registered signal handlers."""
    found: set[CodeType] = set()
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if callable(handler):
            inner = getattr(handler, "__func__", getattr(handler, "func", handler))
            code = getattr(inner, "__code__", None)
            if type(code) is CodeType:
                found.add(code)
    return found


def warn_once(key: str, message: str, *args: object) -> bool:
    """Log a warning the first time its key is seen in this process; return whether it was logged."""
    if key in _warned:
        return False
    _warned.add(key)
    log_message(logging.WARNING, message, *args)
    return True


def log_message(level: int, message: str, *args: object, with_traceback: bool = False) -> None:
    """Log a message of the SDK; swallow exceptions of the program's log handlers."""
    try:
        log.log(level, message, *args, exc_info=with_traceback)
    except Exception:  # noqa: BLE001 - logging is the last resort
        errors["logging"] += 1


def forget_warning(key: str) -> None:
    """Allow a warning to be logged again after the problem has passed."""
    _warned.discard(key)


class Guard:
    """Context manager that swallows and reports internal errors."""

    __slots__ = ("_where",)

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: object, error: BaseException | None, tb: object
    ) -> Literal[True] | None:
        if not isinstance(error, Exception):
            return None
        report(self._where, error)
        return True
