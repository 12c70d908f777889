"""Consistent copies of SQLite files that other processes write to."""

import sqlite3
import uuid
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tracereel_collector.errors import StartupError
from tracereel_collector.runtime.durable import sync


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """Summary of a queue, for comparison after a backup or restore."""

    queue_id: str
    next_sequence_number: int
    open_batches: int
    """Batches sealed and not known to be in the store."""
    waiting_bodies: int
    counters: dict[str, int]
    """Counters by `name/kind`."""


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database at a single point in time without blocking writers."""
    try:
        with (
            closing(sqlite3.connect(f"file:{source}?mode=rw", uri=True)) as reading,
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            # All pages in one step are one read transaction, so the copy is consistent.
            reading.backup(copy)
            # A single file, without a WAL.
            copy.execute("PRAGMA journal_mode=DELETE").fetchall()
            found = copy.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.Error as error:
        raise StartupError(f"{source} cannot be copied: {error}") from error
    if found != [("ok",)]:
        raise StartupError(f"the copy of {source} is not sound: {found[0][0]}")
    sync(target)


def queue_facts(path: Path) -> QueueFacts:
    """Read the summary of a queue file."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True)) as reading:
            meta = dict(reading.execute("SELECT key, value FROM meta").fetchall())
            ((opened,),) = reading.execute(
                "SELECT count(*) FROM batches WHERE done_unix_nano IS NULL"
            ).fetchall()
            ((waiting,),) = reading.execute(
                "SELECT count(*) FROM bodies WHERE NOT EXISTS (SELECT 1 FROM batches WHERE"
                " batches.kind = bodies.kind AND bodies.id <= last_body)"
            ).fetchall()
            counters = reading.execute("SELECT name, kind, value FROM counters").fetchall()
        return QueueFacts(
            queue_id=str(meta["queue_id"]),
            next_sequence_number=int(meta["next_sequence_number"]),
            open_batches=opened,
            waiting_bodies=waiting,
            counters={f"{name}/{kind}": value for name, kind, value in sorted(counters)},
        )
    except (sqlite3.Error, KeyError, ValueError) as error:
        raise StartupError(f"{path} cannot be read as a queue: {error}") from error


def newest_unix_nano(path: Path) -> int | None:
    """Return the time of the newest arrival; None without a queue or data."""
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True)) as reading:
            found = reading.execute(
                "SELECT max(at) FROM (SELECT max(last_unix_nano) AS at FROM emitters"
                " UNION ALL SELECT max(received_unix_nano) FROM digests"
                " UNION ALL SELECT received_unix_nano FROM bodies"
                " WHERE id = (SELECT max(id) FROM bodies)"
                " UNION ALL SELECT max(quarantined_unix_nano) FROM quarantine)"
            ).fetchone()[0]
    except sqlite3.Error:
        return None  # damage is handled when the queue is opened
    return int(found) if found is not None else None


def give_new_id(path: Path) -> None:
    """Assign a new id to a copied queue, so that its batch tokens are unique.

    The original continues to number its batches: a store that has seen those would drop new data with
    the same tokens as duplicates.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as copy:
        copy.execute("UPDATE meta SET value=? WHERE key='queue_id'", (str(uuid.uuid4()),))
    sync(path)
