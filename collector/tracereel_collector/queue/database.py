"""Open the queue file with durable settings and read the remains of damaged files."""

import os
import sqlite3
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tracereel_collector.errors import StartupError
from tracereel_collector.model import Kind
from tracereel_collector.queue.ledger import is_ledger

SCHEMA_VERSION = 2
PAGE_SIZE = 16384
SECURE_DELETE = "FAST"
"""Default mode: some SQLite builds overwrite all deleted content, which doubles the writes."""
_HEADER = b"SQLite format 3\0" + PAGE_SIZE.to_bytes(2, "big") + b"\2\2\0\x40\x20\x20"
"""First bytes of a SQLite file in WAL mode with pages of this size."""
_LONGEST = 1 << 40
_SMALLEST_ROW = 20
_DAMAGED = ".damaged-"
_HIGHEST = 2**62
"""Upper bound for valid numbers; higher ones are damage."""
_NOT_THE_FILE = frozenset(
    {
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM),
        *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN),
    }
)


@dataclass(frozen=True, slots=True)
class Rescued:
    """Readable contents of a damaged queue: undelivered bodies, quarantine, ledgers, counters."""

    aside: Path
    bodies: Iterator[tuple[str, str, int, int, bytes]]
    """Kind, tenant, records, arrival time, data."""
    quarantine: Iterator[tuple[Any, ...]]
    """Rows of the table, in column order."""
    emitters: list[tuple[str, str, str, int]]
    counters: list[tuple[str, str, int]]
    """Empty if unreadable: counting then restarts from zero."""
    next_sequence_number: int


def checksum(data: bytes) -> int:
    """Return the CRC-32 that detects damaged bodies."""
    return zlib.crc32(data)


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection that threads may share in turn; commits are durable on return."""
    is_new = not path.exists() or not path.stat().st_size
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=5, cached_statements=256
    )
    connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
    if is_new:  # later it would write to the file
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=2000")
    connection.execute("PRAGMA cache_size=-16384")
    connection.execute(f"PRAGMA secure_delete={SECURE_DELETE}")
    return connection


class SharedReader:
    """Connection for reads that threads use in turn."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[sqlite3.Connection]:
        """Use the connection alone within the block."""
        with self._lock:
            yield self._connection

    def rows(self, query: str, *parameters: object) -> list[Any]:
        """Return the rows of a query."""
        with self._lock:
            return self._connection.execute(query, parameters).fetchall()

    def close(self) -> None:
        """Close the connection; safe to call twice."""
        with self._lock:
            self._connection.close()


def open_or_set_aside(
    path: Path, *, now_unix_nano: Callable[[], int] = time.time_ns
) -> tuple[sqlite3.Connection, list[Rescued]]:
    """Open or create the queue, and read damaged files that are not rescued yet.

    A damaged file is renamed and its readable rows are returned. Files whose rescue did not finish
    (its mark is committed together with the rescued rows) are returned again at every start.
    """
    try:
        connection = _open(path)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if not _is_damage(error, path):
            raise StartupError(f"cannot open the queue {path}: {error}") from error
        aside = path.with_name(f"{path.name}{_DAMAGED}{time.time_ns()}")
        # The main file last: if this is interrupted, the next start still finds the damage.
        for suffix in ("-wal", "-shm", ""):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        connection = _open(path)
    marks = {row[0] for row in connection.execute("SELECT key FROM meta").fetchall()}
    damaged = sorted(path.parent.glob(f"{path.name}{_DAMAGED}*[0-9]"))
    rescued = [
        _rescue(file, now=now_unix_nano()) for file in damaged if rescued_mark(file) not in marks
    ]
    return connection, rescued


def _is_damage(error: Exception, path: Path) -> bool:
    """Return whether the file is damaged, as opposed to a disk, memory or locking error."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code == sqlite3.SQLITE_READONLY:  # a damaged header causes this error too
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return code not in _NOT_THE_FILE


def rescued_mark(aside: Path) -> str:
    """Return the `meta` key that marks a damaged file as rescued into this queue."""
    return f"rescued:{aside.name}"


def _open(path: Path) -> sqlite3.Connection:
    connection = connect(path)
    try:
        if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            schema = resources.files(__package__).joinpath("schema.sql").read_text()
            connection.executescript(
                f"BEGIN; {schema}"
                f" INSERT INTO meta VALUES ('schema', {SCHEMA_VERSION}), ('next_sequence_number', 1),"
                f" ('queue_id', '{uuid.uuid4()}'); COMMIT;"
            )
            _sync_directory(path.parent)
        problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if problem != "ok":
            raise sqlite3.DatabaseError(problem)
        meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        version = meta.get("schema")
        if not _is((version, meta.get("next_sequence_number"), meta.get("queue_id")), "nnt"):
            raise sqlite3.DatabaseError("the queue does not say what it is")
        if version != SCHEMA_VERSION:
            raise StartupError(
                f"the queue {path} has schema {version},"
                f" this version of tracereel reads {SCHEMA_VERSION}",
                hint="start the version that wrote it, let it deliver everything, then change over",
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rescue(path: Path, *, now: int) -> Rescued:
    _mend_header(path)
    connection = sqlite3.connect(path, isolation_level=None)
    found = _rows(connection, "SELECT value FROM meta WHERE key='next_sequence_number'")
    # If unreadable, use microseconds since 1970: higher than any number assigned so far.
    next_number = found[0][0] if found and _is(found[0], "n") else now // 1_000
    emitters = _rows(connection, "SELECT tenant, emitter_id, seen, last_unix_nano FROM emitters")
    counters = _rows(connection, "SELECT name, kind, value FROM counters")
    connection.close()
    quarantined = (
        "id, kind, tenant, sequence_number, records, reason, quarantined_unix_nano, data,"
        " received_unix_nano"
    )
    return Rescued(
        aside=path,
        bodies=_readable_bodies(path),
        quarantine=_readable(path, "quarantine", quarantined, "nktnntnbn"),
        emitters=[row for row in emitters if _is(row, "tttn") and is_ledger(row[2])],
        counters=[row for row in counters if _is(row, "tkn")],
        next_sequence_number=next_number,
    )


def _mend_header(path: Path) -> None:
    """Restore the SQLite header and pad the file to the size stated there.

    SQLite refuses to read a file with a wrong header or with fewer pages than the header states.
    """
    with path.open("r+b") as file:
        header = file.read(100)
        if header[:16] != _HEADER[:16] and header[16:24] != _HEADER[16:]:
            return
        file.seek(0)
        file.write(_HEADER)
        pages = int.from_bytes(header[28:32], "big")
        size = path.stat().st_size
        if pages * PAGE_SIZE > _LONGEST:
            file.seek(28)
            file.write((size // PAGE_SIZE).to_bytes(4, "big"))
        else:
            file.truncate(max(size, pages * PAGE_SIZE))


def _readable_bodies(path: Path) -> Iterator[tuple[str, str, int, int, bytes]]:
    """Yield the undelivered bodies."""
    connection = sqlite3.connect(path, isolation_level=None)
    query = "SELECT kind, first_body, last_body FROM batches WHERE done_unix_nano > 0"
    done = [row for row in _rows(connection, query) if _is(row, "knn")]
    connection.close()
    columns = "id, kind, tenant, records, received_unix_nano, data, checksum"
    for body_id, kind, *rest, data, crc in _readable(path, "bodies", columns, "nktnnbn"):
        delivered = any(kind == of and lo <= body_id <= hi for of, lo, hi in done)
        if not delivered and checksum(data) == crc:
            yield (kind, *rest, data)


def _readable(path: Path, table: str, columns: str, shape: str) -> Iterator[Any]:
    """Yield rows one by one, so that a bad page costs only its rows."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    ends = [
        *_rows(connection, f"SELECT min(id), max(id) FROM {table}"),
        *_rows(connection, f"SELECT 1, seq FROM sqlite_sequence WHERE name='{table}'"),
    ]
    ends = [row for row in ends if _is(row, "nn")]
    first, last = (ends[0][0], max(end[1] for end in ends)) if ends else (1, 0)
    most = path.stat().st_size // _SMALLEST_ROW
    for row_id in range(first, min(last, first + most) + 1):
        rows = _rows(connection, f"SELECT {columns} FROM {table} WHERE id={row_id}")
        yield from (row for row in rows if _is(row, shape))
    connection.close()


_KINDS = frozenset(kind.value for kind in Kind)
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "b": lambda value: isinstance(value, bytes),
    "k": lambda value: value in _KINDS,
    "n": lambda value: isinstance(value, int) and 0 <= value < _HIGHEST,
    "t": lambda value: isinstance(value, str),
}
"""Type checks by letter: a damaged page can hold any type in any column."""


def _is(row: Iterable[Any], shape: str) -> bool:
    return all(_CHECKS[letter](value) for letter, value in zip(shape, row, strict=True))


def _rows(connection: sqlite3.Connection, query: str) -> list[Any]:
    """Return the rows of a query; an empty list if the file is damaged there."""
    try:
        return connection.execute(query).fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return []
