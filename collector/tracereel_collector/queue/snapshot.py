"""Copies of SQLite files taken while others write to them: one moment, whole, in one file."""

import os
import sqlite3
import uuid
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tracereel_collector.errors import StartupError


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """What is written down of a queue, to be compared with what it becomes."""

    queue_id: str
    next_sequence_number: int
    open_batches: int
    """Sealed and not known to be in the store."""
    waiting_bodies: int
    counters: dict[str, int]
    """By `name/kind`."""


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a database as it is at this moment; writers are not kept waiting.

    Raises:
        StartupError: the file cannot be read, or the copy is not sound.
    """
    try:
        with (
            closing(sqlite3.connect(f"file:{source}?mode=rw", uri=True)) as reading,
            closing(sqlite3.connect(target, isolation_level=None)) as copy,
        ):
            # All pages in one step are one read transaction: never two moments in one copy.
            reading.backup(copy)
            # One file, without a log beside it.
            copy.execute("PRAGMA journal_mode=DELETE").fetchall()
            found = copy.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.Error as error:
        raise StartupError(f"{source} cannot be copied: {error}") from error
    if found != [("ok",)]:
        raise StartupError(f"the copy of {source} is not sound: {found[0][0]}")
    _sync(target)


def queue_facts(path: Path) -> QueueFacts:
    """What a queue's file says of itself.

    Raises:
        StartupError: it is no queue.
    """
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


def give_new_id(path: Path) -> None:
    """Let a copied queue make tokens of its own.

    The original goes on numbering its batches: a store that has seen those would take new data under
    the same tokens for data that it has.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as copy:
        copy.execute("UPDATE meta SET value=? WHERE key='queue_id'", (str(uuid.uuid4()),))
    _sync(path)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
