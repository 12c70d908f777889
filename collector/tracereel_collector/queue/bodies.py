"""Rows of the `bodies` table, and the bytes that undelivered and quarantined records hold.

`held_bytes` counts them by kind and tenant, in the transactions that change them, so that all processes
read the same values.
"""

import sqlite3
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tracereel_collector.model import Batch, Kind, QueuedBody

COLUMNS = "id, kind, tenant, first_sequence_number, records, received_unix_nano, data, checksum"
"""Columns for `readable`."""
TOTALS = (
    "SELECT kind, sum(pending), sum(quarantined), (SELECT coalesce(sum(bytes), 0) FROM batches"
    " WHERE kind=held_bytes.kind AND done_unix_nano IS NULL) FROM held_bytes GROUP BY kind"
)
OF_TENANT = (
    "SELECT coalesce(sum(pending), 0), coalesce(sum(quarantined), 0) FROM held_bytes WHERE tenant=?"
)
OLDEST = (
    "SELECT received_unix_nano FROM bodies WHERE id = coalesce("
    "(SELECT first_body FROM batches WHERE kind=?1 AND done_unix_nano IS NULL ORDER BY id LIMIT 1),"
    " (SELECT min(id) FROM bodies WHERE kind=?1"
    " AND id > coalesce((SELECT max(last_body) FROM batches WHERE kind=?1), 0)))"
)
"""Arrival time of the oldest undelivered body of a kind."""
_UNDELIVERED = (
    "INSERT INTO held_bytes SELECT kind, tenant, sum(bytes), 0 FROM bodies WHERE kind=?1 AND id >"
    " coalesce((SELECT max(last_body) FROM batches WHERE kind=?1 AND done_unix_nano IS NOT NULL), 0)"
    " GROUP BY tenant"
)
_QUARANTINED = (
    "INSERT INTO held_bytes SELECT kind, tenant, 0, sum(length(data)) FROM quarantine WHERE true"
    " GROUP BY kind, tenant"
    " ON CONFLICT (kind, tenant) DO UPDATE SET quarantined = excluded.quarantined"
)


@dataclass(frozen=True, slots=True)
class HeldBytes:
    """Bytes of all tenants by state."""

    pending: int = 0
    quarantined: int = 0
    unsealed: dict[str, int] = field(default_factory=dict)
    """Pending bytes in no batch yet, by kind."""

    @classmethod
    def of(cls, rows: Iterable[tuple[str, int, int, int]]) -> "HeldBytes":
        """Return the sums of the rows of `TOTALS`."""
        found = list(rows)
        return cls(
            pending=sum(pending for _, pending, _, _ in found),
            quarantined=sum(quarantined for _, _, quarantined, _ in found),
            unsealed={kind: pending - sealed for kind, pending, _, sealed in found},
        )


def hold(
    connection: sqlite3.Connection,
    kind: str,
    tenant: str,
    *,
    pending: int = 0,
    quarantined: int = 0,
) -> None:
    """Add to the bytes that a tenant holds, within the current transaction.

    `kind` may also be the lane of an owner that bodies are relayed to.
    """
    connection.execute(
        "INSERT INTO held_bytes VALUES (?, ?, ?, ?) ON CONFLICT (kind, tenant) DO UPDATE SET"
        " pending = pending + excluded.pending, quarantined = quarantined + excluded.quarantined",
        (kind, tenant, pending, quarantined),
    )


def release(connection: sqlite3.Connection, batch: Batch) -> None:
    """Subtract a delivered batch from its tenants' pending bytes."""
    for tenant, size in connection.execute(
        "SELECT tenant, sum(bytes) FROM bodies WHERE kind=? AND id BETWEEN ? AND ? GROUP BY tenant",
        (batch.kind, batch.first_body, batch.last_body),
    ).fetchall():
        hold(connection, batch.kind, tenant, pending=-size)
    connection.execute("DELETE FROM held_bytes WHERE pending <= 0 AND quarantined <= 0")


def measure(connection: sqlite3.Connection) -> None:
    """Recalculate the held bytes from the tables, when the owner process starts."""
    connection.execute("DELETE FROM held_bytes")
    for kind in Kind:
        connection.execute(_UNDELIVERED, (kind,))
    connection.execute(_QUARANTINED)


def insert(
    connection: sqlite3.Connection,
    *,
    kind: Kind,
    tenant: str,
    number: int,
    records: int,
    received_unix_nano: int,
    data: bytes,
) -> int:
    """Insert a body for delivery and return its id."""
    hold(connection, kind, tenant, pending=len(data))
    cursor = connection.execute(
        "INSERT INTO bodies (kind, tenant, first_sequence_number, records, bytes,"
        " received_unix_nano, checksum, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (kind, tenant, number, records, len(data), received_unix_nano, zlib.crc32(data), data),
    )
    assert cursor.lastrowid is not None  # noqa: S101 - an INSERT always has one
    return cursor.lastrowid


def readable(rows: Iterable[tuple[Any, ...]]) -> list[QueuedBody]:
    """Return the bodies of rows of `COLUMNS` whose checksum is right."""
    return [
        QueuedBody(
            id=body_id,
            kind=Kind(kind),
            tenant=tenant,
            first_sequence_number=number,
            records=records,
            received_unix_nano=received,
            data=data,
        )
        for body_id, kind, tenant, number, records, received, data, checksum in rows
        if zlib.crc32(data) == checksum
    ]
