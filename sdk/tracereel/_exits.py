"""How a process ends: exit handlers where there would be none, and the moment when it is too late."""

import atexit
import os
import sys
from collections.abc import Callable
from typing import Final

too_late: Final[Callable[[], bool]] = sys.is_finalizing
"""Whether the interpreter is being taken apart.

The program's daemon threads have stopped by then, for good and wherever they were, so they may hold
our locks: a finaliser that ends a traced call must not wait for one.
"""

_LAST: Final = -100
"""Priority among the finalisers of multiprocessing: below 0, so after a process has joined its own."""

_actions: Final[list[Callable[[], None]]] = []
_forked = False


def at_exit(action: Callable[[], None]) -> None:
    """Call something when this process, or a forked child, ends in an orderly way."""
    _actions.append(action)
    atexit.register(_run)


def watch_child() -> None:
    """Have it called at the end of a process of multiprocessing too.

    Forked ones leave by `os._exit`, without exit handlers, and forget what was registered before
    they began their work. So this is called when there is something to end, by whoever has it.
    """
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing import util

        util.Finalize(None, _run, exitpriority=_LAST)


def had_children() -> bool:
    """Whether children of this process may have left something behind."""
    return _forked or "multiprocessing.process" in sys.modules


def _run() -> None:
    try:
        for action in _actions:
            action()
    except KeyboardInterrupt:
        # Whoever interrupts the exit means it: what is on disk is delivered another time.
        pass


def _note_fork() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_parent=_note_fork)
