"""Backup of the whole database into one file that ClickHouse writes, and its restore."""

import time
from typing import Final

from tracereel_collector.errors import StoreUnavailableError
from tracereel_collector.store.clickhouse import ClickHouseStore

LOOK_SECONDS: Final = 0.1
_STATE = "SELECT status, error FROM system.backups WHERE id = {id:String}"
_UNDER_WAY: Final = frozenset({"CREATING_BACKUP", "RESTORING"})
_DONE: Final = frozenset({"BACKUP_CREATED", "RESTORED"})


def write_archive(store: ClickHouseStore, *, database: str, place: str) -> None:
    """Back up all tables and views to a ClickHouse destination: `File('x.tar')`, `Disk(…)`."""
    _wait(store, f"BACKUP DATABASE `{database}` TO {place} ASYNC")


def read_archive(store: ClickHouseStore, *, database: str, place: str, into: str) -> None:
    """Restore the tables and views of an archive into a database of any name."""
    _wait(store, f"RESTORE DATABASE `{database}` AS `{into}` FROM {place} ASYNC")


def _wait(store: ClickHouseStore, statement: str) -> None:
    """Run in the engine's background and poll. It exceeds the time limit of a request."""
    backup_id, status = store.select(statement, {}, fmt="TabSeparated").decode().split()
    error = ""
    while status in _UNDER_WAY:
        time.sleep(LOOK_SECONDS)
        found = store.select(_STATE, {"id": backup_id}, fmt="TabSeparated").decode()
        status, _, error = found.rstrip("\n").partition("\t")
    if status not in _DONE:
        # The part after the message is a stack trace.
        message = (
            error.partition(", Stack trace")[0] or status or "the store was started anew meanwhile"
        )
        raise StoreUnavailableError(f"the store could not do it: {message[:300]}")
