"""Rows of the `bodies` table: insert with the gauges that count them, and read."""

import sqlite3
from collections.abc import Iterable
from typing import Any

from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.queue import gauges, tenant_bytes
from tracereel_collector.queue.database import checksum

COLUMNS = "id, kind, tenant, first_sequence_number, records, received_unix_nano, data, checksum"
"""Columns for `readable`."""


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
    size = len(data)
    gauges.add(connection, gauges.PENDING, kind, size)
    gauges.add(connection, gauges.UNSEALED, kind, size)
    tenant_bytes.add(connection, tenant, pending=size)
    cursor = connection.execute(
        "INSERT INTO bodies (kind, tenant, first_sequence_number, records, bytes,"
        " received_unix_nano, checksum, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (kind, tenant, number, records, size, received_unix_nano, checksum(data), data),
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
        for body_id, kind, tenant, number, records, received, data, crc in rows
        if checksum(data) == crc
    ]
