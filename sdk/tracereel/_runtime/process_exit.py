"""Exit hooks, also for multiprocessing children, and detection of interpreter shutdown."""

import atexit
import os
import sys
from collections.abc import Callable
from typing import Final

too_late: Final[Callable[[], bool]] = sys.is_finalizing
"""Return whether the interpreter is shutting down.

Daemon threads have been stopped by then and may hold SDK locks, so finalisers must not wait for
locks.
"""

_LAST: Final = -100
"""Priority of the multiprocessing finaliser: below 0, so after child processes are joined."""

_actions: Final[list[Callable[[], None]]] = []
_forked = False


def at_exit(action: Callable[[], None]) -> None:
    """Register a callback for the orderly exit of this process or a forked child."""
    _actions.append(action)
    atexit.register(_run)


def watch_child() -> None:
    """Run the exit callbacks at the end of a multiprocessing process too.

    Forked processes leave by `os._exit` without exit handlers and clear finalisers registered
    before they started. So this is called once there is something to flush.
    """
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing import util

        util.Finalize(None, _run, exitpriority=_LAST)


def had_children() -> bool:
    """Return whether child processes may have left events in the spool."""
    return _forked or "multiprocessing.process" in sys.modules


def _run() -> None:
    try:
        for action in _actions:
            action()
    except KeyboardInterrupt:
        # The user interrupted the exit: events on disk are delivered later.
        pass


def _note_fork() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_parent=_note_fork)
