"""Deletion marks: reject late records of deleted data and purge the queue file.

Marks are kept for 180 days. Beyond 50,000 marks, the oldest of the tenant with the most are dropped.
"""

import sqlite3
from collections.abc import Iterable
from importlib import resources
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracereel_collector.model import Kind, Marks

LATE_SECONDS: Final = 180 * 24 * 3600
"""Lifetime of a mark; the same as that of a silent emitter."""
MAX_MARKS: Final = 50_000
SECURE_DELETE: Final = "FAST"
"""Default mode: some SQLite builds overwrite all deleted content, which doubles the writes."""
_VERSION: Final = "deleted_version"
_OTLP: Final[dict[Kind, tuple[Any, str, str, str]]] = {
    Kind.SPANS: (ExportTraceServiceRequest, "resource_spans", "scope_spans", "spans"),
    Kind.LOGS: (ExportLogsServiceRequest, "resource_logs", "scope_logs", "log_records"),
}


class _Names(msgspec.Struct, gc=False):
    trace_id: str | None = None
    user_id: str | None = None


_NAMES: Final = msgspec.json.Decoder(_Names)


def create(connection: sqlite3.Connection) -> None:
    """Create the tables if they do not exist."""
    connection.executescript(resources.files(__package__).joinpath("deleted.sql").read_text())


class DeletionMarks:
    """Cache of the deletion marks, reloaded when their version changes."""

    def __init__(self) -> None:
        self._version = -1
        self._stale = True
        self._marks: dict[str, Marks] = {}

    def look_again(self) -> None:
        """Check the version again at the next use: the file has been written to."""
        self._stale = True

    def forget(self) -> None:
        """Clear the cache: after a rollback it may be ahead of the file."""
        self._version, self._stale = -1, True

    def of(self, connection: sqlite3.Connection, tenant: str) -> Marks | None:
        """Return a tenant's marks; None if it has none."""
        if self._stale:
            row = connection.execute("SELECT value FROM meta WHERE key=?", (_VERSION,)).fetchone()
            version = row[0] if row else 0
            if version != self._version:
                self._marks = _read(connection)
            self._version, self._stale = version, False
        return self._marks.get(tenant)


def mark(connection: sqlite3.Connection, tenant: str, marks: Marks, *, now: int) -> int:
    """Store deletion marks and return the id of the newest body."""
    until = now + LATE_SECONDS * 1_000_000_000
    connection.executemany(
        "INSERT OR REPLACE INTO deleted VALUES (?, ?, ?, ?)",
        [(tenant, what, name, until) for what, name in marks.pairs()],
    )
    connection.execute(
        # Take them from the tenant with the most marks: it must not evict those of others.
        "DELETE FROM deleted WHERE (tenant, what, id) IN (SELECT tenant, what, id FROM"
        " (SELECT *, row_number() OVER (PARTITION BY tenant ORDER BY until_unix_nano DESC) AS place"
        " FROM deleted) ORDER BY place LIMIT -1 OFFSET ?)",
        (MAX_MARKS,),
    )
    _changed(connection)
    newest = connection.execute("SELECT seq FROM sqlite_sequence WHERE name='bodies'").fetchone()
    return int(newest[0]) if newest else 0


def forget_old(connection: sqlite3.Connection, *, now: int) -> None:
    """Delete expired marks."""
    if connection.execute("DELETE FROM deleted WHERE until_unix_nano < ?", (now,)).rowcount > 0:
        _changed(connection)


def without(kind: Kind, data: bytes, marks: Marks) -> tuple[bytes, int]:
    """Return a body without the records that marks match, and the number removed."""
    if kind in _OTLP:
        return _otlp_without(kind, data, marks)
    if kind is Kind.METRICS or kind is Kind.HEARTBEATS:
        return data, 0
    lines = data.split(b"\n")
    kept = [line for line in lines if not _is_of(line, marks)]
    return b"\n".join(kept), len(lines) - len(kept)


def purge(
    connection: sqlite3.Connection, tenant: str, marks: Marks, *, up_to: int
) -> dict[Kind, tuple[int, int]]:
    """Delete a tenant's delivered bodies and the quarantine entries that marks match.

    Freed pages are overwritten. Returns the records and bytes removed from quarantine by kind.
    """
    connection.execute("PRAGMA secure_delete=ON").fetchall()
    try:
        return _purge(connection, tenant, marks, up_to=up_to)
    finally:
        connection.execute(f"PRAGMA secure_delete={SECURE_DELETE}").fetchall()


def _purge(
    connection: sqlite3.Connection, tenant: str, marks: Marks, *, up_to: int
) -> dict[Kind, tuple[int, int]]:
    for batch, kind, first, last in connection.execute(
        "SELECT id, kind, first_body, last_body FROM batches WHERE done_unix_nano IS NOT NULL"
    ).fetchall():
        place = (kind, first, min(last, up_to), tenant)
        where = "FROM bodies WHERE kind=? AND id BETWEEN ? AND ? AND tenant=?"
        (size,) = connection.execute(f"SELECT coalesce(sum(bytes), 0) {where}", place).fetchone()
        connection.execute(f"DELETE {where}", place)
        connection.execute("UPDATE batches SET bytes = bytes - ? WHERE id=?", (size, batch))
    left: dict[Kind, tuple[int, int]] = {}
    for entry, name, records, data in connection.execute(
        "SELECT id, kind, records, data FROM quarantine WHERE tenant=?", (tenant,)
    ).fetchall():
        kind = Kind(name)
        if without(kind, data, marks)[1]:
            connection.execute("DELETE FROM quarantine WHERE id=?", (entry,))
            known = left.get(kind, (0, 0))
            left[kind] = (known[0] + records, known[1] + len(data))
    return left


def undelivered(connection: sqlite3.Connection, tenant: str, *, up_to: int) -> int:
    """Return how many of a tenant's bodies with ids up to `up_to` are not delivered."""
    (waiting,) = connection.execute(
        "SELECT count(*) FROM bodies AS b WHERE tenant=? AND id<=? AND NOT EXISTS (SELECT 1 FROM"
        " batches WHERE kind=b.kind AND b.id BETWEEN first_body AND last_body"
        " AND done_unix_nano IS NOT NULL)",
        (tenant, up_to),
    ).fetchone()
    return int(waiting)


def mentions(connection: sqlite3.Connection, tenant: str, marks: Marks) -> bool:
    """Return whether a queued body or quarantine entry contains records that marks match."""
    names = [name.encode() for name in (*marks.traces, *marks.users)]
    names += [bytes.fromhex(name) for name in marks.otel]
    # JSON may escape non-ASCII names: a substring search would miss them, so decode every body.
    plain = all(name.isascii() for name in (*marks.traces, *marks.users))
    holds = " OR ".join(["instr(data, ?)"] * len(names)) if plain else "1"
    for table in ("bodies", "quarantine"):
        rows = connection.execute(
            f"SELECT kind, data FROM {table} WHERE tenant=? AND ({holds})",
            (tenant, *(names if plain else ())),
        )
        if any(without(Kind(kind), data, marks)[1] for kind, data in rows):
            return True
    return False


def _changed(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO meta VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET value = value + 1",
        (_VERSION,),
    )


def _read(connection: sqlite3.Connection) -> dict[str, Marks]:
    found: dict[str, dict[str, set[str]]] = {}
    for tenant, what, name in connection.execute("SELECT tenant, what, id FROM deleted"):
        found.setdefault(tenant, {}).setdefault(what, set()).add(name)
    return {tenant: Marks.of(pairs) for tenant, pairs in found.items()}


def _is_of(line: bytes, marks: Marks) -> bool:
    try:
        names = _NAMES.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False  # a quarantined record may be undecodable
    return names.trace_id in marks.traces or names.user_id in marks.users


def _otlp_without(kind: Kind, data: bytes, marks: Marks) -> tuple[bytes, int]:
    raw = [bytes.fromhex(name) for name in marks.otel]
    if not any(name in data for name in (*raw, *(user.encode() for user in marks.users))):
        return data, 0
    message, resources_name, scopes_name, records_name = _OTLP[kind]
    try:
        request: Any = message.FromString(data)
    except DecodeError:
        return data, 0
    scopes = [
        getattr(scope, records_name)
        for resource in getattr(request, resources_name)
        for scope in getattr(resource, scopes_name)
    ]
    gone = set(raw) | {
        record.trace_id
        for records in scopes
        for record in records
        if _names_user(record.attributes, marks.users)
    }
    removed = 0
    for records in scopes:
        for at in range(len(records) - 1, -1, -1):
            if records[at].trace_id in gone:
                del records[at]
                removed += 1
    return (request.SerializeToString(), removed) if removed else (data, 0)


def _names_user(attributes: Iterable[Any], users: frozenset[str]) -> bool:
    return bool(users) and any(
        pair.key.lower().replace("_", ".").endswith(("user.id", "userid"))
        and pair.value.string_value in users
        for pair in attributes
    )
