"""Quarantine: records that the store refused for their content, kept until retried, dropped or expired."""

import sqlite3
from collections.abc import Iterable, Sequence

from tracereel_collector.model import Kind, Quarantined, QuarantineEntry
from tracereel_collector.queue import bodies, gauges, tenant_bytes
from tracereel_collector.queue.append import count

_SHOWN = (
    "id, kind, tenant, sequence_number, records, length(data), reason,"
    " received_unix_nano, quarantined_unix_nano"
)


def put(connection: sqlite3.Connection, refused: Iterable[Quarantined], *, now: int) -> None:
    """Put records into quarantine within the current transaction."""
    for each in refused:
        connection.execute(
            "INSERT INTO quarantine (kind, tenant, sequence_number, records, reason,"
            " quarantined_unix_nano, data, received_unix_nano) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                each.kind,
                each.tenant,
                each.sequence_number,
                each.records,
                each.reason,
                now,
                each.data,
                each.received_unix_nano,
            ),
        )
        gauges.add(connection, gauges.QUARANTINED, each.kind, len(each.data))
        tenant_bytes.add(connection, each.tenant, quarantined=len(each.data))


def entries(
    connection: sqlite3.Connection, *, tenant: str, before: int | None, limit: int
) -> list[QuarantineEntry]:
    """Return a tenant's entries, newest first; `before` is the id to continue from."""
    rows = connection.execute(
        f"SELECT {_SHOWN} FROM quarantine WHERE tenant=? AND id < ? ORDER BY id DESC LIMIT ?",
        (tenant, before if before is not None else 2**62, limit),
    ).fetchall()
    return [_entry(row) for row in rows]


def entry(connection: sqlite3.Connection, entry_id: int, *, tenant: str) -> QuarantineEntry | None:
    """Return one of a tenant's entries with its data; None if not found."""
    row = connection.execute(
        f"SELECT {_SHOWN}, data FROM quarantine WHERE id=? AND tenant=?", (entry_id, tenant)
    ).fetchone()
    return _entry(row) if row else None


def retry(connection: sqlite3.Connection, entry_id: int, *, tenant: str) -> Kind | None:
    """Queue an entry for delivery again, with its number and arrival time; return its kind."""
    found = _take(connection, entry_id, tenant)
    if found is None:
        return None
    kind = Kind(found.kind)
    bodies.insert(
        connection,
        kind=kind,
        tenant=tenant,
        number=found.sequence_number,
        records=found.records,
        received_unix_nano=found.received_unix_nano or found.quarantined_unix_nano,
        data=found.data or b"",
    )
    count(connection, "retried", kind, found.records)
    return kind


def drop(connection: sqlite3.Connection, entry_id: int, *, tenant: str) -> bool:
    """Delete an entry and return whether it existed. It stays counted as quarantined."""
    found = _take(connection, entry_id, tenant)
    if found is not None:
        count(connection, "dropped", Kind(found.kind), found.records)
    return found is not None


def drop_old(
    connection: sqlite3.Connection,
    before_unix_nano: int,
    tenants: frozenset[str],
    *,
    are_meant: bool,
    kept: Sequence[tuple[int, int]] = (),
) -> int:
    """Drop old entries of `tenants`, or of all others; return the number of records."""
    found = connection.execute(
        "SELECT id, tenant, records, quarantined_unix_nano FROM quarantine"
        " WHERE quarantined_unix_nano < ?",
        (before_unix_nano,),
    ).fetchall()
    mine = [
        row
        for row in found
        if (row[1] in tenants) == are_meant
        and not any(start <= row[3] < end for start, end in kept)
    ]
    for entry_id, tenant, _, _ in mine:
        drop(connection, entry_id, tenant=tenant)
    return sum(records for _, _, records, _ in mine)


def _take(connection: sqlite3.Connection, entry_id: int, tenant: str) -> QuarantineEntry | None:
    found = entry(connection, entry_id, tenant=tenant)
    if found is not None:
        connection.execute("DELETE FROM quarantine WHERE id=?", (entry_id,))
        gauges.add(connection, gauges.QUARANTINED, Kind(found.kind), -found.size)
        tenant_bytes.add(connection, tenant, quarantined=-found.size)
    return found


def _entry(row: tuple[object, ...]) -> QuarantineEntry:
    names = QuarantineEntry.__dataclass_fields__
    return QuarantineEntry(**dict(zip(names, row, strict=False)))  # type: ignore[arg-type]
