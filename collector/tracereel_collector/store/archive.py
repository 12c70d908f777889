"""Backup of the whole database into one file that ClickHouse writes, and its restore."""

import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from tracereel_collector.errors import StoreUnavailableError

LOOK_SECONDS: Final = 0.1
_STATE = "SELECT status, error FROM system.backups WHERE id = {id:String}"
_UNDER_WAY: Final = frozenset({"CREATING_BACKUP", "RESTORING"})
_DONE: Final = frozenset({"BACKUP_CREATED", "RESTORED"})


class Asks(Protocol):
    """Store interface that backups use."""

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; return the response's bytes in a ClickHouse format."""
        ...


def write_archive(store: Asks, *, database: str, place: str) -> None:
    """Back up all tables and views to a ClickHouse destination: `File('x.tar')`, `Disk(…)`.

    Raises:
        StoreUnavailableError: it failed; the message has the reason.
    """
    _wait(store, f"BACKUP DATABASE `{database}` TO {place} ASYNC")


def read_archive(store: Asks, *, database: str, place: str, into: str) -> None:
    """Restore the tables and views of an archive into a database of any name.

    Raises:
        StoreUnavailableError: it failed; the message has the reason.
    """
    _wait(store, f"RESTORE DATABASE `{database}` AS `{into}` FROM {place} ASYNC")


def _wait(store: Asks, statement: str) -> None:
    """Run in the engine's background and poll. It exceeds the time limit of a request."""
    backup_id, status = store.select(statement, {}, fmt="TabSeparated").decode().split()
    error = ""
    while status in _UNDER_WAY:
        time.sleep(LOOK_SECONDS)
        found = store.select(_STATE, {"id": backup_id}, fmt="TabSeparated").decode()
        status, _, error = found.rstrip("\n").partition("\t")
    if status not in _DONE:
        # The part after the message is a stack trace.
        said = (
            error.partition(", Stack trace")[0] or status or "the store was started anew meanwhile"
        )
        raise StoreUnavailableError(f"the store could not do it: {said[:300]}")
