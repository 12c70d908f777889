"""Brings a store to this version's schema, once and in order, and refuses one that is newer."""

import re
from typing import Protocol

from tracereel_collector.errors import StartupError
from tracereel_collector.store.sql import Migration, migrations


class Runs(Protocol):
    """What migrating needs of a store."""

    def command(self, statement: str, /) -> None:
        """Run a statement that returns nothing."""
        ...

    def rows(self, statement: str, /) -> list[tuple[str, ...]]:
        """Run a query and return its rows as text."""
        ...


_CHANGED_VIEW = re.compile(r"(?m)^ALTER TABLE (\w+) MODIFY QUERY\b")
_CREATE = """CREATE TABLE IF NOT EXISTS schema_migrations
(number UInt32, name String, checksum String, applied_at DateTime DEFAULT now())
ENGINE = MergeTree ORDER BY number
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"""


def migrate(store: Runs) -> list[Migration]:
    """Apply what is missing and return it.

    Raises:
        StartupError: the store was made by a newer version, or a migration changed after the fact.
    """
    store.command(_CREATE)
    rows = store.rows("SELECT number, name, checksum FROM schema_migrations ORDER BY number")
    applied = {int(number): checksum for number, _, checksum in rows}
    known = migrations()
    if unknown := sorted(set(applied) - {each.number for each in known}):
        raise StartupError(
            f"the store has migrations {unknown} that this version of tracereel does not know",
            hint="install the newer tracereel that wrote it, or restore a backup from before",
        )
    missing = []
    for migration in known:
        if migration.number not in applied:
            _apply(store, migration)
            missing.append(migration)
        elif applied[migration.number] != migration.checksum:
            raise StartupError(
                f"migration {migration.number:04d}_{migration.name} is not the one the store was"
                " made with",
                hint="add a new migration instead of changing an old one",
            )
    return missing


def applied_migrations(store: Runs) -> list[int]:
    """The numbers of those that a store has."""
    return [
        int(number)
        for (number,) in store.rows("SELECT number FROM schema_migrations ORDER BY number")
    ]


def _apply(store: Runs, migration: Migration) -> None:
    for statement in migration.statements:
        view = _CHANGED_VIEW.search(statement)
        if view is not None:
            store.command(f"ATTACH TABLE IF NOT EXISTS {view[1]}")
        # A crash in the middle leaves some objects behind: making them again must be harmless.
        store.command(_again(statement))
        if view is not None:
            # Until it is loaded anew, a changed view gives inserts other tokens than it will after the
            # next start: what was sent again then would be stored twice.
            store.command(f"DETACH TABLE {view[1]}")
            store.command(f"ATTACH TABLE {view[1]}")
    store.command(
        "INSERT INTO schema_migrations (number, name, checksum)"
        f" SELECT {migration.number}, '{migration.name}', '{migration.checksum}'"
    )


def _again(statement: str) -> str:
    for kind in ("CREATE TABLE", "CREATE MATERIALIZED VIEW", "CREATE VIEW"):
        statement = statement.replace(f"{kind} ", f"{kind} IF NOT EXISTS ", 1)
    return statement
