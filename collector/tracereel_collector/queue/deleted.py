"""Deletion marks: reject late records of deleted data.

Marks are kept for 180 days. Beyond 50,000 marks, the oldest of the tenant with the most are dropped.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracereel_collector.model import Kind, Marks

LATE_SECONDS: Final = 180 * 24 * 3600
"""Lifetime of a mark; the same as that of a silent emitter."""
MAX_MARKS: Final = 50_000
_VERSION: Final = "deleted_version"
OTLP: Final[dict[str, tuple[Any, str]]] = {
    Kind.SPANS: (ExportTraceServiceRequest, "spans"),
    Kind.LOGS: (ExportLogsServiceRequest, "log_records"),
}
"""Request class and the name of the records in a scope."""


class _Names(msgspec.Struct, gc=False):
    trace_id: str | None = None
    user_id: str | None = None


_NAMES: Final = msgspec.json.Decoder(_Names)


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
    if kind in OTLP:
        return _otlp_without(kind, data, marks)
    if kind is Kind.METRICS or kind is Kind.HEARTBEATS:
        return data, 0
    lines = data.split(b"\n")
    kept = [line for line in lines if not _is_of(line, marks)]
    return b"\n".join(kept), len(lines) - len(kept)


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
    try:
        request: Any = OTLP[kind][0].FromString(data)
    except DecodeError:
        return data, 0
    scopes = [records for _, _, records in otlp_scopes(kind, request)]
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


def otlp_scopes(kind: str, request: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each resource and scope of a request with the records in it."""
    for resource in getattr(request, f"resource_{kind}"):
        for scope in getattr(resource, f"scope_{kind}"):
            yield resource, scope, getattr(scope, OTLP[kind][1])


def _names_user(attributes: Iterable[Any], users: frozenset[str]) -> bool:
    return bool(users) and any(
        pair.key.lower().replace("_", ".").endswith(("user.id", "userid"))
        and pair.value.string_value in users
        for pair in attributes
    )
