"""Keys of a data directory: a small SQLite file shared by the CLI and all workers.

Creation and revocation are in the audit log before they take effect.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, Final, Self

from tracereel_collector.auth.audit import AuditLog
from tracereel_collector.auth.keys import (
    Key,
    KeyScope,
    check_name,
    check_tenant,
    digest_of,
    new_key,
    parse_expiry,
)
from tracereel_collector.auth.shared_file import connect_durably, create_private
from tracereel_collector.errors import (
    BadRequestError,
    ServiceUnavailableError,
    UnknownResourceError,
)
from tracereel_collector.runtime.clock import TrustedClock

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

    def __init__(
        self,
        data_dir: Path,
        *,
        audit: AuditLog | None = None,
        now_unix: Callable[[], float] = time.time,
    ) -> None:
        self._path = data_dir / FILE
        self._audit = audit or AuditLog(data_dir / "audit")
        self._now = now_unix
        self._lock = threading.Lock()
        self._watching: sqlite3.Connection | None = None
        self._listed: tuple[int, int] | None = None

    @classmethod
    def of(cls, data_dir: Path) -> Self:
        """Return the keys of a data directory, dated by its trusted clock."""
        return cls(data_dir, now_unix=TrustedClock(data_dir).latest_unix)

    def create(
        self,
        *,
        tenant: str,
        scopes: frozenset[KeyScope],
        name: str = "",
        expires: str | None = None,
        by: str,
    ) -> tuple[str, Key]:
        """Create a key; return the secret, which is not stored, and its record.

        Raises:
            BadRequestError: the tenant, name or expiry is invalid, or there are too many keys.
        """
        now = int(self._now())
        expires_unix = parse_expiry(expires, now_unix=now) if expires else None
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
            _insert(connection, key)
            self._record("key.created", key, by)  # if it fails, the key is not created
        return secret, key

    def revoke(self, key_id: str, *, tenant: str | None = None, by: str) -> Key:
        """Revoke a key permanently; keys of other tenants than `tenant` are not found."""
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
                self._record("key.revoked", key, by)
            return key

    def merge(self, keys: Iterable[Key], *, by: str) -> int:
        """Add keys and revocations of another member of the group; return how many were new."""
        changed = 0
        with self._writing() as connection:
            known = {key.id: key for key in _rows(connection)}
            for key in keys:
                own = known.get(key.id)
                if own is None and len(known) < MAX_KEYS:
                    _insert(connection, key)
                    known[key.id] = key
                elif own is not None and own.revoked_unix is None and key.revoked_unix is not None:
                    connection.execute(
                        "UPDATE keys SET revoked_unix=? WHERE id=?", (key.revoked_unix, key.id)
                    )
                else:
                    continue
                changed += 1
                revoked = key.revoked_unix is not None
                self._record("key.revoked" if revoked else "key.created", key, by)
        return changed

    def document(self, key: Key) -> dict[str, Any]:
        """Return a key's public fields and current state."""
        return {
            "id": key.id,
            "tenant": key.tenant,
            "name": key.name,
            "scopes": sorted(key.scopes),
            "state": key.state(self._now()),
            "created": _moment(key.created_unix),
            "expires": _moment(key.expires_unix),
            "revoked": _moment(key.revoked_unix),
        }

    def list(self, *, tenant: str | None = None) -> list[Key]:
        """List all keys or those of a tenant, oldest first; empty if none was ever created."""
        with self._reading():
            try:
                self._path.stat()
            except FileNotFoundError:
                return []
            with closing(connect_durably(self._path, timeout=5)) as connection:
                return [key for key in _rows(connection) if tenant in (None, key.tenant)]

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

    def _record(self, event: str, key: Key, by: str) -> None:
        scopes = sorted(key.scopes)
        self._audit.act(event, key=key.id, tenant=key.tenant, name=key.name, scopes=scopes, by=by)

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
            self._watching = connect_durably(self._path, timeout=5)
        return (inode, self._watching.execute("PRAGMA data_version").fetchone()[0])

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.close()
        self._watching = None
        self._listed = None  # versions of two connections cannot be compared

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
            connection = connect_durably(self._path, timeout=5)
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


def _insert(connection: sqlite3.Connection, key: Key) -> None:
    connection.execute(
        "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(key.id, key.tenant, key.name, ",".join(sorted(key.scopes))),
            *(key.digest, key.created_unix, key.expires_unix, key.revoked_unix),
        ),
    )


def _rows(connection: sqlite3.Connection) -> list[Key]:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name='keys'").fetchone():
        return []
    connection.row_factory = sqlite3.Row
    return [
        Key(**{**row, "scopes": frozenset(map(KeyScope, row["scopes"].split(",")))})
        for row in connection.execute(_SELECT)
    ]


def _moment(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
