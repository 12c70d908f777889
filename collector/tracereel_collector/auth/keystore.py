"""Keys of a data directory: a small SQLite file shared by the CLI and all workers."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Final

from tracereel_collector.auth.keys import (
    Key,
    KeyScope,
    check_name,
    check_tenant,
    digest_of,
    new_key,
)
from tracereel_collector.auth.shared_file import create_private
from tracereel_collector.errors import (
    BadRequestError,
    ServiceUnavailableError,
    UnknownResourceError,
)

FILE: Final = "keys.sqlite"
MAX_KEYS: Final = 10_000
"""Most keys, including revoked ones: every worker holds all of them in memory."""
MAX_TENANT_KEYS: Final = 2_000
"""Most keys of one tenant, so that its administrators leave room for other tenants."""
_NO_FILE: Final = (0, 0)
_SELECT: Final = (
    "SELECT id, tenant, name, scopes, digest, created_unix, expires_unix, revoked_unix FROM keys"
    " ORDER BY created_unix, id"
)


class KeysUnreadableError(ServiceUnavailableError, code="keys_unreadable"):
    """The key file cannot be read, so requests cannot be authenticated."""


class KeyStore:
    """Creates, lists and revokes keys; safe across threads and processes."""

    def __init__(self, path: Path, *, now_unix: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now_unix
        self._lock = threading.Lock()
        self._watching: sqlite3.Connection | None = None
        self._listed: tuple[int, int] | None = None

    def create(
        self,
        *,
        tenant: str,
        scopes: frozenset[KeyScope],
        name: str = "",
        expires_unix: int | None = None,
        on_made: Callable[[Key], None] = lambda _: None,
    ) -> tuple[str, Key]:
        """Create a key; return the secret, which is not stored, and its record.

        `on_made` runs inside the transaction: if it fails, the key is not created.

        Raises:
            BadRequestError: the tenant, name or expiry is invalid, or there are too many keys.
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
            of_tenant = connection.execute(
                "SELECT count(*) FROM keys WHERE tenant=?", (key.tenant,)
            ).fetchone()[0]
            if of_tenant >= MAX_TENANT_KEYS:
                raise BadRequestError(
                    f"the tenant has {of_tenant} keys already, revoked ones included;"
                    f" expected at most {MAX_TENANT_KEYS}"
                )
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
        """Revoke a key permanently; keys of other tenants than `tenant` are not found.

        Raises:
            UnknownResourceError: there is no such key.
        """
        with self._writing() as connection:
            key = next((key for key in _rows(connection) if key.id == key_id), None)
            if key is None or tenant not in (None, key.tenant):
                raise UnknownResourceError(
                    f"no key {key_id[:40]!r}", hint="see `tracereel keys list`"
                )
            if key.revoked_unix is None:
                key = replace(key, revoked_unix=int(self._now()))
                connection.execute(
                    "UPDATE keys SET revoked_unix=? WHERE id=?", (key.revoked_unix, key_id)
                )
                on_revoked(key)
            return key

    def list(self) -> list[Key]:
        """List all keys, oldest first; empty if none was ever created.

        Raises:
            KeysUnreadableError: the file exists but cannot be read.
        """
        with self._reading():
            try:
                self._path.stat()
            except FileNotFoundError:
                return []
            with closing(self._connect()) as connection:
                return _rows(connection)

    def list_if_changed(self) -> Sequence[Key] | None:
        """List all keys if the file changed since this last listed them, else return None.

        Raises:
            KeysUnreadableError: the file exists but cannot be read; the next call lists the keys.
        """
        with self._lock:
            try:
                with self._reading():
                    version = self._version()
                if version == self._listed:
                    return None
                keys = self.list()
            except KeysUnreadableError:
                self._stop_watching()
                raise
            # Only now: a change that could not be read must be read by the next call.
            self._listed = version
            return keys

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            self._stop_watching()

    def _version(self) -> tuple[int, int]:
        """Return the inode of the file and the version of its content."""
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            if self._listed != _NO_FILE:
                self._stop_watching()
            return _NO_FILE
        if self._watching is None or self._listed is None or self._listed[0] != inode:
            self._stop_watching()
            self._watching = self._connect()
        return (inode, self._watching.execute("PRAGMA data_version").fetchone()[0])

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.close()
        self._watching = None
        self._listed = None  # versions of two connections cannot be compared

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=5
        )
        # EXTRA also syncs the directory, so that a power failure cannot undo a revocation.
        connection.execute("PRAGMA synchronous=EXTRA")
        return connection

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, ValueError) as error:  # ValueError: an unknown scope
            raise KeysUnreadableError(f"{self._path} cannot be read: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        try:
            create_private(self._path)
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
            connection.close()  # without COMMIT the transaction is rolled back


def _rows(connection: sqlite3.Connection) -> list[Key]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name='keys'").fetchone():
        return []
    connection.row_factory = sqlite3.Row
    return [
        Key(**{**row, "scopes": frozenset(map(KeyScope, row["scopes"].split(",")))})
        for row in connection.execute(_SELECT)
    ]
