"""Migration of a store to this version's schema: each file once, in order."""

import re
from collections.abc import Sequence

from tracereel_collector.errors import StartupError
from tracereel_collector.store.clickhouse import ClickHouseStore
from tracereel_collector.store.sql import Migration, migrations

_CHANGED_VIEW = re.compile(r"(?m)^ALTER TABLE (\w+) MODIFY QUERY\b")
_CREATE = """CREATE TABLE IF NOT EXISTS schema_migrations
(number UInt32, name String, checksum String, applied_at DateTime DEFAULT now())
ENGINE = MergeTree ORDER BY number
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1"""


def migrate(store: ClickHouseStore, known: Sequence[Migration] | None = None) -> list[Migration]:
    """Apply the migrations that are missing, by default those of the package, and return them.

    Raises:
        StartupError: the store was made by a newer version, or with another schema.
    """
    known = migrations() if known is None else known
    store.command(_CREATE)
    rows = store.rows("SELECT number, name, checksum FROM schema_migrations ORDER BY number")
    applied = {int(number): (name, checksum) for number, name, checksum in rows}
    _refuse_other_schema(applied, known)
    missing = [each for each in known if each.number not in applied]
    for migration in missing:
        _apply(store, migration)
    return missing


def applied_migrations(store: ClickHouseStore) -> list[int]:
    """Return the numbers of the applied migrations."""
    return [
        int(number)
        for (number,) in store.rows("SELECT number FROM schema_migrations ORDER BY number")
    ]


def _refuse_other_schema(applied: dict[int, tuple[str, str]], known: Sequence[Migration]) -> None:
    for each in known:
        found = applied.get(each.number, (each.name, each.checksum))
        if found != (each.name, each.checksum):
            # Until the first release, schema files are edited in place.
            raise StartupError(
                f"the store was made with schema {each.number:04d}_{found[0]} ({found[1]}) of a"
                f" development version, this version expects {each.number:04d}_{each.name}"
                f" ({each.checksum})",
                hint="start with a new --data-dir or database, or export with the version that wrote it",
            )
    if unknown := sorted(set(applied) - {each.number for each in known}):
        raise StartupError(
            f"the store has migrations {unknown} that this version of tracereel does not know",
            hint="install the newer tracereel that wrote it, or restore a backup from before",
        )


def _apply(store: ClickHouseStore, migration: Migration) -> None:
    for statement in migration.statements:
        view = _CHANGED_VIEW.search(statement)
        if view is not None:
            store.command(f"ATTACH TABLE IF NOT EXISTS {view[1]}")
        # A crash may leave some objects behind: creating them again must be harmless.
        store.command(_repeatable(statement))
        if view is not None:
            # Until it is loaded again, a changed view derives other tokens than after a restart: a batch
            # retried then would be stored twice.
            store.command(f"DETACH TABLE {view[1]}")
            store.command(f"ATTACH TABLE {view[1]}")
    store.command(
        "INSERT INTO schema_migrations (number, name, checksum)"
        f" SELECT {migration.number}, '{migration.name}', '{migration.checksum}'"
    )


def _repeatable(statement: str) -> str:
    for kind in ("CREATE TABLE", "CREATE MATERIALIZED VIEW", "CREATE VIEW"):
        statement = statement.replace(f"{kind} ", f"{kind} IF NOT EXISTS ", 1)
    return statement
