"""A small SQLite file that all workers count in; never synced, never precious, never in the way."""

import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import structlog

log = structlog.get_logger(__name__)


class SharedFile:
    """Runs single statements; without a path in memory. Safe to use from any thread."""

    def __init__(self, path: Path | None, *, schema: str, what: str) -> None:
        self._path = path
        self._schema = schema
        self._what = what
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def run(self, statement: str, *parameters: object) -> list[Any]:
        """The rows of a statement; none where the file cannot be used."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                return self._connection.execute(statement, parameters).fetchall()
            except (sqlite3.Error, OSError) as error:
                # A limit that cannot be held must not keep anybody's data out.
                log.warning("shared_file_unreadable", what=self._what, reason=str(error))
                return []

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        path = self._path
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            path or ":memory:", isolation_level=None, check_same_thread=False, timeout=0.2
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(self._schema)
        return connection
