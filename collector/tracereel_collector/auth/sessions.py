"""Login sessions of the page: random tokens, stored as digests, each bound to a key."""

import hashlib
import hmac
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracereel_collector.auth.shared_file import connect_durably, create_private
from tracereel_collector.errors import ServiceUnavailableError

FILE: Final = "sessions.sqlite"
LIFETIME_SECONDS: Final = 7 * 24 * 3600
MAX_SESSIONS: Final = 10_000
MAX_PER_KEY: Final = 100
"""Beyond either limit, the oldest sessions end."""
TOKEN_BYTES: Final = 32
MAX_TOKEN_CHARS: Final = 128
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " digest BLOB NOT NULL UNIQUE, key_id TEXT NOT NULL, proof BLOB NOT NULL,"
    " expires_unix INTEGER NOT NULL)"
)
_TRIM: Final = (
    "DELETE FROM sessions WHERE id IN"
    " (SELECT id FROM sessions {} ORDER BY id DESC LIMIT -1 OFFSET ?)"
)


class SessionsUnreadableError(ServiceUnavailableError, code="sessions_unreadable"):
    """The session file cannot be used."""


@dataclass(frozen=True, slots=True)
class LoginSession:
    """Stored record of a session."""

    key_id: str
    proof: bytes

    def belongs_to(self, token: str, key_digest: bytes) -> bool:
        """Return whether the session was started with this key: static key ids are reused."""
        return hmac.compare_digest(self.proof, _proof(token, key_digest))


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as members of a group exchange it; without a key it has ended."""

    digest: bytes
    key_id: str
    proof: bytes
    expires_unix: int


class SessionStore:
    """Starts, finds and ends sessions; safe across threads and processes.

    Every call opens the file again, so that a deleted or replaced file is noticed. A file that cannot be
    used is a SessionsUnreadableError.
    """

    def __init__(self, path: Path, *, now_unix: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now_unix

    def begin(self, key_id: str, key_digest: bytes) -> str:
        """Start a session of a key and return its token."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self.put(self.record(token, key_id, key_digest))
        return token

    def record(self, token: str, key_id: str = "", key_digest: bytes = b"") -> SessionRecord:
        """Return the record of a session that begins now, or without a key of one that ends."""
        expires = int(self._now()) + LIFETIME_SECONDS
        return SessionRecord(_digest(token), key_id, _proof(token, key_digest), expires)

    def put(self, record: SessionRecord) -> None:
        """Store a session, or end it if the record has no key."""
        if not record.key_id:
            self._end(record.digest)
            return
        now = int(self._now())
        with self._connected(create=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_SCHEMA)
            connection.execute(
                "DELETE FROM sessions WHERE expires_unix NOT BETWEEN ? AND ?",
                (now + 1, now + LIFETIME_SECONDS),
            )
            connection.execute(
                "INSERT OR IGNORE INTO sessions (digest, key_id, proof, expires_unix)"
                " VALUES (?, ?, ?, ?)",
                (record.digest, record.key_id, record.proof, record.expires_unix),
            )
            connection.execute(_TRIM.format("WHERE key_id=?"), (record.key_id, MAX_PER_KEY))
            connection.execute(_TRIM.format(""), (MAX_SESSIONS,))
            connection.execute("COMMIT")

    def find(self, token: str) -> LoginSession | None:
        """Return the session of a token; None if it has ended or never existed."""
        if len(token) > MAX_TOKEN_CHARS or not self._path.exists():
            return None
        with self._connected() as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                return None  # another process is creating the table
            row = connection.execute(
                "SELECT key_id, proof, expires_unix FROM sessions WHERE digest=?",
                (_digest(token),),
            ).fetchone()
        # An expiry beyond the lifetime comes from a wrong clock.
        if row is None or not 0 < row[2] - self._now() <= LIFETIME_SECONDS:
            return None
        return LoginSession(row[0], row[1])

    def end(self, token: str) -> bool:
        """End a session; return whether it existed."""
        return self._end(_digest(token))

    def _end(self, digest: bytes) -> bool:
        if not self._path.exists():
            return False
        with self._connected() as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                return False
            done = connection.execute("DELETE FROM sessions WHERE digest=?", (digest,))
            return done.rowcount > 0

    @contextmanager
    def _connected(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        try:
            if create:
                create_private(self._path)
            with closing(connect_durably(self._path, timeout=2)) as connection:
                yield connection
        except (OSError, sqlite3.Error) as error:
            raise SessionsUnreadableError(
                f"{self._path} cannot be used: {error}",
                hint="if it is damaged, delete it: people log in again",
            ) from error


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _proof(token: str, key_digest: bytes) -> bytes:
    return hmac.digest(token.encode("utf-8", "surrogatepass"), key_digest, "sha256")
