"""Refusal of work for processes that were started before a guard, which they do not have.

A process pool that a test module makes when it is imported runs before the guard of a test. What is
handed to it, or written to a pipe or queue that was open then, is refused.
"""

import functools
import os
import sys
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tracereel._runtime import compat

_CHANNELS: Final = (
    ("multiprocessing.connection", "Connection", ("send", "send_bytes")),
    ("multiprocessing.queues", "Queue", ("put",)),
    ("multiprocessing.queues", "SimpleQueue", ("put",)),
)


def children() -> set[int | None]:
    """Return the ids of the processes that `multiprocessing` has running."""
    multiprocessing = sys.modules.get("multiprocessing")
    found = multiprocessing.active_children() if multiprocessing is not None else ()
    return {each.pid for each in found}


def watch(refuse: Callable[[str], None], *, guarded: AbstractSet[int | None]) -> ExitStack:
    """Call a function with the name of what is used to give work to an older process.

    Args:
        refuse: function that raises if the calling code may not do so.
        guarded: processes that have a guard.

    Returns:
        What to close to stop it.
    """
    undo = ExitStack()
    workers = children() - guarded
    if not workers:
        return undo
    pipes = _open_pipes()
    for kind, name in compat.worker_pools():

        def is_older_pool(pool: Any) -> bool:
            return not workers.isdisjoint(compat.workers_of(pool))

        _replace(undo, kind, name, is_older_pool, refuse)
    for module_name, kind_name, names in _CHANNELS:
        channel_kind = getattr(sys.modules.get(module_name), kind_name, None)
        for name in names if isinstance(channel_kind, type) else ():
            _replace(undo, channel_kind, name, lambda channel: _pipe(channel) in pipes, refuse)
    return undo


def _replace(
    undo: ExitStack,
    kind: Any,
    name: str,
    is_older: Callable[[Any], bool],
    refuse: Callable[[str], None],
) -> None:
    real = vars(kind).get(name)
    if real is None:
        return  # inherited from a class that is watched

    @functools.wraps(real)
    def use(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_older(self):
            refuse(type(self).__name__)
        return real(self, *args, **kwargs)

    undo.callback(setattr, kind, name, real)
    setattr(kind, name, use)


def _open_pipes() -> frozenset[tuple[int, int]]:
    """Return the pipes and sockets that this process has open."""
    try:
        descriptors = [int(each.name) for each in Path("/proc/self/fd").iterdir()]
    except OSError:
        descriptors = list(range(1024))
    return frozenset(filter(None, map(_identity, descriptors)))


def _pipe(channel: Any) -> tuple[int, int] | None:
    try:
        return _identity(compat.pipe_of(channel).fileno())
    except OSError:
        return None  # closed: using it fails by itself


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino
