"""The promise that recording never hurts the recorded: our errors are counted and logged once.

In our tests (`TRACEREEL_RAISE_INTERNAL_ERRORS=1`) the same errors are raised, so that none hides.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Final, Literal

RAISE_ENV: Final = "TRACEREEL_RAISE_INTERNAL_ERRORS"

log: Final = logging.getLogger("tracereel")
"""Operational messages of the SDK itself (delivery trouble, ignored values, our own errors)."""

# A program that has set up no logging would have warnings, and the lines of failed agents, printed on
# its standard error by the library's last resort: it did not ask for them.
log.addHandler(logging.NullHandler())

errors: Final[Counter[str]] = Counter()
"""Internal errors by place, for this process."""

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
    errors[where] += 1
    for listener in _listeners:
        try:
            listener(where)
        except Exception:  # noqa: BLE001 - the last line of defence has nobody left to tell
            pass
    warn_once(f"internal:{where}", "tracereel: internal error in %s: %r", where, error)


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
