"""Small SQLite file with counters shared by all workers; not synced and safe to lose.

Counters are dated by the monotonic clock, which starts again at every boot, so those of another boot
are deleted when the file is opened.
"""

import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)

_BOOTS: Final = (
    "CREATE TABLE IF NOT EXISTS boots (counters TEXT PRIMARY KEY, boot_id TEXT) WITHOUT ROWID"
)
"""Boot of each table: several objects share a file and each clears its own table."""


def create_private(path: Path) -> None:
    """Create a file with private permissions: SQLite would use the umask, and journals inherit them."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def connect_durably(path: Path, *, timeout: float) -> sqlite3.Connection:
    """Open a database in autocommit mode whose commits a power failure cannot undo."""
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=timeout
    )
    connection.execute("PRAGMA synchronous=EXTRA")  # also syncs the directory
    return connection


class SharedFile:
    """Thread-safe executor of single statements on one table; in memory without a path."""

    def __init__(
        self,
        path: Path | None,
        *,
        table: str,
        columns: str,
        what: str,
        boot_id: Callable[[], str],
    ) -> None:
        self._path = path
        self._table = table
        self._columns = columns
        self._what = what
        self._boot_id = boot_id
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def run(self, statement: str, *parameters: object) -> list[Any]:
        """Run a statement and return its rows; empty if the file cannot be used."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                return self._connection.execute(statement, parameters).fetchall()
            except (sqlite3.Error, OSError) as error:
                # A broken rate limit must not block ingest.
                log.warning("shared_file_unreadable", what=self._what, reason=str(error))
                return []

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        path = self._path
        if path is not None:
            create_private(path)
        connection = sqlite3.connect(
            path or ":memory:", isolation_level=None, check_same_thread=False, timeout=0.2
        )
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=OFF")
            self._prepare(connection)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Create the table, empty unless its counters are of this boot."""
        current = self._boot_id()
        connection.execute("BEGIN IMMEDIATE")  # two workers must not both see another boot
        connection.execute(_BOOTS)
        # An unknown boot matches none: counters may be lost, but must not block a key for weeks.
        if not connection.execute(
            "SELECT 1 FROM boots WHERE counters=? AND boot_id=? AND boot_id!=''",
            (self._table, current),
        ).fetchone():
            connection.execute(f"DROP TABLE IF EXISTS {self._table}")
            connection.execute("REPLACE INTO boots VALUES (?, ?)", (self._table, current))
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} ({self._columns}) WITHOUT ROWID"
        )
        connection.execute("COMMIT")
