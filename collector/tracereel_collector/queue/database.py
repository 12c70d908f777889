"""Open the queue file with durable settings; set a damaged one aside."""

import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from tracereel_collector.errors import StartupError
from tracereel_collector.runtime.durable import sync

SCHEMA_VERSION = 3
PAGE_SIZE = 16384
SECURE_DELETE = "FAST"
"""Default mode: some SQLite builds overwrite all deleted content, which doubles the writes."""
_DAMAGED = ".damaged-"
HIGHEST = 2**62
"""Upper bound for valid numbers; higher ones are damage."""
_NOT_THE_FILE = frozenset(
    {
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM),
        *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN),
    }
)


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


def open_or_set_aside(path: Path) -> tuple[sqlite3.Connection, list[Path]]:
    """Open or create the queue; also return the damaged files that are not rescued yet.

    A damaged file is renamed. Files whose rescue did not finish (its mark is committed together with the
    rescued rows) are returned again at every start.
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
    return connection, [file for file in damaged if rescued_mark(file) not in marks]


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
            sync(path.parent)
        problem = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if problem != "ok":
            raise sqlite3.DatabaseError(problem)
        meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
        version, number = meta.get("schema"), meta.get("next_sequence_number")
        numbered = isinstance(version, int) and isinstance(number, int) and 0 <= number < HIGHEST
        if not (numbered and isinstance(meta.get("queue_id"), str)):
            raise sqlite3.DatabaseError("the queue does not say what it is")
        if version != SCHEMA_VERSION:
            raise StartupError(
                f"the queue {path} has schema {version},"
                f" this version of tracereel reads {SCHEMA_VERSION}",
                hint="start the version that wrote it, let it deliver everything, then change over",
            )
        # Queues of versions without groups lack these tables.
        relays = resources.files(__package__).joinpath("relays.sql").read_text()
        connection.executescript(f"BEGIN; {relays} COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection
