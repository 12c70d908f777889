"""Opening the queue's file: settings that make a commit durable, and rescue of a damaged one."""

import os
import sqlite3
import time
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tracereel_collector.errors import StartupError
from tracereel_collector.queue import deleted, sessions

SCHEMA_VERSION = 1
_DAMAGED = ".damaged-"


@dataclass(frozen=True, slots=True)
class Rescued:
    """What a damaged queue still held: bodies not known to be delivered, numbers, ledger."""

    aside: Path
    bodies: Iterator[tuple[str, str, int, int, bytes]]
    """Kind, tenant, records, time of arrival, data."""
    emitters: list[tuple[str, str, str, int]]
    next_sequence_number: int


def checksum(data: bytes) -> int:
    """What tells a damaged body from a sound one."""
    return zlib.crc32(data)


def connect(path: Path) -> sqlite3.Connection:
    """A connection that other threads may use in turn; commits reach the disk before returning."""
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=5, cached_statements=256
    )
    connection.execute("PRAGMA page_size=16384")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=2000")
    connection.execute("PRAGMA cache_size=-16384")
    # Some builds of SQLite overwrite what is deleted: every delivered body would be written again.
    connection.execute("PRAGMA secure_delete=FAST")
    return connection


def open_or_set_aside(path: Path) -> tuple[sqlite3.Connection, list[Rescued]]:
    """The queue at a path, made if absent, and what is left in damaged ones.

    A damaged file is renamed and read for what is left. Files whose rescue did not end (the mark is
    written with what was rescued) are offered again at every start.
    """
    try:
        connection = _open(path)
    except sqlite3.OperationalError as error:
        raise StartupError(f"cannot open the queue {path}: {error}") from error
    except sqlite3.DatabaseError:
        aside = path.with_name(f"{path.name}{_DAMAGED}{time.time_ns()}")
        # The main file last: until it has gone, the next start finds the same damage.
        for suffix in ("-wal", "-shm", ""):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        connection = _open(path)
    marks = {row[0] for row in connection.execute("SELECT key FROM meta")}
    damaged = sorted(path.parent.glob(f"{path.name}{_DAMAGED}*[0-9]"))
    return connection, [_rescue(file) for file in damaged if rescued_mark(file) not in marks]


def rescued_mark(aside: Path) -> str:
    """The key that says: what could be read in a damaged file is in this queue."""
    return f"rescued:{aside.name}"


def _open(path: Path) -> sqlite3.Connection:
    new = not path.exists()
    connection = connect(path)
    try:
        if new or not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            _create(connection)
            _sync_directory(path.parent)
        sessions.create(connection)
        deleted.create(connection)
        problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise sqlite3.DatabaseError(problem)
        version = connection.execute("SELECT value FROM meta WHERE key='schema'").fetchone()[0]
        if version == SCHEMA_VERSION and not new:
            # What a version before this one did not have; it may still read the file afterwards.
            connection.executescript(f"BEGIN; {_schema()} COMMIT;")
            _add_columns(connection)
    except BaseException:
        connection.close()
        raise
    if version != SCHEMA_VERSION:
        connection.close()
        raise StartupError(
            f"the queue {path} has schema {version}, this version of tracereel reads {SCHEMA_VERSION}",
            hint="start the version that wrote it, let it deliver everything, then change over",
        )
    return connection


def _create(connection: sqlite3.Connection) -> None:
    connection.executescript(
        f"BEGIN; {_schema()}"
        f" INSERT INTO meta VALUES ('schema', {SCHEMA_VERSION}), ('next_sequence_number', 1),"
        f" ('queue_id', '{uuid.uuid4()}'); COMMIT;"
    )


def _add_columns(connection: sqlite3.Connection) -> None:
    columns = {row[1] for row in connection.execute("PRAGMA table_info(quarantine)")}
    if "received_unix_nano" not in columns:
        connection.execute(
            "ALTER TABLE quarantine ADD COLUMN received_unix_nano INTEGER NOT NULL DEFAULT 0"
        )


def _schema() -> str:
    return resources.files(__package__).joinpath("schema.sql").read_text()


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rescue(path: Path) -> Rescued:
    _fill_up(path)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    found = _rows(connection, "SELECT value FROM meta WHERE key='next_sequence_number'")
    # Unreadable: microseconds since 1970 are beyond any number given out so far.
    next_number = found[0][0] if found else time.time_ns() // 1_000
    emitters = _rows(connection, "SELECT tenant, emitter_id, seen, last_unix_nano FROM emitters")
    return Rescued(path, _readable_bodies(connection), emitters, next_number)


def _fill_up(path: Path) -> None:
    """SQLite reads nothing of a file shorter than its header says; zeros make it long enough."""
    with path.open("rb") as file:
        header = file.read(32)
    if header.startswith(b"SQLite format 3\0"):
        page_size = int.from_bytes(header[16:18], "big")
        pages = int.from_bytes(header[28:32], "big")
        os.truncate(
            path, max(path.stat().st_size, (65536 if page_size == 1 else page_size) * pages)
        )


def _readable_bodies(connection: sqlite3.Connection) -> Iterator[tuple[str, str, int, int, bytes]]:
    """Row by row, so that one bad page costs only the rows on it."""
    done = _rows(
        connection, "SELECT kind, first_body, last_body FROM batches WHERE done_unix_nano > 0"
    )
    ends = [
        *_rows(connection, "SELECT min(id), max(id) FROM bodies"),
        *_rows(connection, "SELECT 1, seq FROM sqlite_sequence WHERE name='bodies'"),
    ]
    ends = [(first, last) for first, last in ends if first is not None]
    first, last = (ends[0][0], max(end[1] for end in ends)) if ends else (1, 0)
    for body_id in range(first, last + 1):
        rows = _rows(
            connection,
            "SELECT kind, tenant, records, received_unix_nano, data, checksum FROM bodies"
            f" WHERE id={body_id}",
        )
        for kind, *rest, data, crc in rows:
            delivered = any(kind == of and lo <= body_id <= hi for of, lo, hi in done)
            if not delivered and checksum(data) == crc:
                yield (kind, *rest, data)
    connection.close()


def _rows(connection: sqlite3.Connection, query: str) -> list[Any]:
    """The rows of a query, or none where the file is damaged."""
    try:
        return connection.execute(query).fetchall()
    except sqlite3.DatabaseError:
        return []
