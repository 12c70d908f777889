"""The keys of a data directory: a small SQLite file that the command and every worker share."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Final

from tracereel_collector.auth.keys import Key, Scope, check_name, check_tenant, digest_of, new_key
from tracereel_collector.errors import BadRequestError, NotFoundError, UnavailableError

FILE: Final = "keys.sqlite"
MAX_KEYS: Final = 10_000
"""Keys kept, revoked ones included: every worker holds them all in memory."""
_SELECT: Final = (
    "SELECT id, tenant, name, scopes, digest, created_unix, expires_unix, revoked_unix FROM keys"
    " ORDER BY created_unix, id"
)


class KeysUnreadableError(UnavailableError):
    """The file of keys cannot be read, so nobody can be told from anybody."""

    code = "keys_unreadable"


class KeyStore:
    """Makes, lists and revokes keys; safe to use from any thread and from several processes."""

    def __init__(self, path: Path, *, now_unix: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now_unix
        self._lock = threading.Lock()
        self._watching: sqlite3.Connection | None = None
        self._seen: tuple[int, int] | None = None

    def create(
        self,
        *,
        tenant: str,
        scopes: frozenset[Scope],
        name: str = "",
        expires_unix: int | None = None,
        on_made: Callable[[Key], None] = lambda _: None,
    ) -> tuple[str, Key]:
        """A new key, said this once, and what is kept of it.

        `on_made` runs inside the transaction: where it fails, there is no key.

        Raises:
            BadRequestError: tenant or name cannot be one, it would expire at once, or there are
                too many keys.
        """
        now = int(self._now())
        if expires_unix is not None and expires_unix <= now:
            raise BadRequestError("the key would have expired already; expected a time to come")
        secret, key_id = new_key()
        key = Key(
            id=key_id,
            tenant=check_tenant(tenant),
            name=check_name(name),
            scopes=scopes,
            digest=digest_of(secret),
            created_unix=now,
            expires_unix=expires_unix,
        )
        with self._writing() as connection:
            if connection.execute("SELECT count(*) FROM keys").fetchone()[0] >= MAX_KEYS:
                raise BadRequestError(f"there are {MAX_KEYS} keys already, revoked ones included")
            connection.execute(
                "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
                (
                    *(key.id, key.tenant, key.name, ",".join(sorted(scopes))),
                    *(key.digest, key.created_unix, key.expires_unix),
                ),
            )
            on_made(key)
        return secret, key

    def revoke(
        self,
        key_id: str,
        *,
        tenant: str | None = None,
        on_revoked: Callable[[Key], None] = lambda _: None,
    ) -> Key:
        """End a key for good; one of another tenant than the one given is not found.

        Raises:
            NotFoundError: there is no such key (any more) to revoke.
        """
        with self._writing() as connection:
            found = [key for key in _rows(connection) if key.id == key_id]
            if not found or (tenant is not None and found[0].tenant != tenant):
                raise NotFoundError(f"no key {key_id[:40]!r}", hint="see `tracereel keys list`")
            if found[0].revoked_unix is None:
                connection.execute(
                    "UPDATE keys SET revoked_unix=? WHERE id=?", (int(self._now()), key_id)
                )
                on_revoked(found[0])
            return next(key for key in _rows(connection) if key.id == key_id)

    def list(self) -> list[Key]:
        """Every key there is or was, oldest first; none where no key was ever made.

        Raises:
            KeysUnreadableError: the file is there but cannot be read.
        """
        if not self._path.exists():
            return []
        try:
            connection = self._connect()
            try:
                return _rows(connection)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise KeysUnreadableError(f"{self._path} cannot be read: {error}") from error

    def changed(self) -> bool:
        """Whether somebody wrote since the last look; the first look is a change."""
        with self._lock:
            try:
                inode = self._path.stat().st_ino
                if self._watching is None or self._seen is None or self._seen[0] != inode:
                    self._stop_watching()
                    self._watching = self._connect()
                seen = (inode, self._watching.execute("PRAGMA data_version").fetchone()[0])
            except FileNotFoundError:
                self._stop_watching()
                seen = (0, 0)
            except sqlite3.Error as error:
                self._stop_watching()
                self._seen = None
                raise KeysUnreadableError(f"{self._path} cannot be read: {error}") from error
            changed, self._seen = seen != self._seen, seen
            return changed

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        with self._lock:
            self._stop_watching()

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.close()
        self._watching = None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=5
        )
        # EXTRA also syncs the directory, so that a revocation cannot come undone by a power cut.
        connection.execute("PRAGMA synchronous=EXTRA")
        return connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Made by us first: SQLite would let others read it, and its journals take after it.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            connection = self._connect()
        except (OSError, sqlite3.Error) as error:
            raise KeysUnreadableError(f"{self._path} cannot be written: {error}") from error
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(resources.files(__package__).joinpath("schema.sql").read_text())
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise KeysUnreadableError(f"{self._path} cannot be written: {error}") from error
        finally:
            connection.close()  # without a commit nothing was done


def _rows(connection: sqlite3.Connection) -> list[Key]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name='keys'").fetchone():
        return []
    return [_key(row) for row in connection.execute(_SELECT)]


def _key(row: Any) -> Key:
    key_id, tenant, name, scopes, digest, created, expires, revoked = row
    return Key(
        id=key_id,
        tenant=tenant,
        name=name,
        scopes=frozenset(map(Scope, scopes.split(","))),
        digest=digest,
        created_unix=created,
        expires_unix=expires,
        revoked_unix=revoked,
    )
