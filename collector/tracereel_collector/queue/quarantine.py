"""Quarantine: records that the store refused for their content, kept until retried, dropped or expired."""

import sqlite3
from collections.abc import Callable, Iterable, Sequence

from tracereel_collector.model import Kind, Quarantined, QuarantineEntry
from tracereel_collector.queue import bodies
from tracereel_collector.queue.append import count
from tracereel_collector.queue.database import SharedReader
from tracereel_collector.queue.writer import CommitThread

_SHOWN = (
    "id, kind, tenant, sequence_number, records, length(data), reason,"
    " received_unix_nano, quarantined_unix_nano"
)
_ENTRY = f"SELECT {_SHOWN}, data FROM quarantine WHERE id=? AND tenant=?"


class Quarantine:
    """Entries of a queue; uses the connections of the queue."""

    def __init__(
        self, writer: CommitThread, reader: SharedReader, *, on_retried: Callable[[Kind], None]
    ) -> None:
        self._writer = writer
        self._read = reader.rows
        self._on_retried = on_retried

    def entries(
        self, *, tenant: str, before: int | None = None, limit: int = 100
    ) -> list[QuarantineEntry]:
        """Return a tenant's entries, newest first; `before` is the id to continue from."""
        query = (
            f"SELECT {_SHOWN} FROM quarantine WHERE tenant=? AND id < ? ORDER BY id DESC LIMIT ?"
        )
        rows = self._read(query, tenant, before if before is not None else 2**62, limit)
        return [_entry(row) for row in rows]

    def entry(self, entry_id: int, *, tenant: str) -> QuarantineEntry | None:
        """Return one of a tenant's entries with its data; None if not found."""
        rows = self._read(_ENTRY, entry_id, tenant)
        return _entry(rows[0]) if rows else None

    def retry(self, entry_id: int, *, tenant: str) -> bool:
        """Queue an entry for delivery again, with its number and arrival time; return if it existed."""

        def work(connection: sqlite3.Connection) -> bool:
            found = _take(connection, entry_id, tenant)
            if found is None:
                return False
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
            self._on_retried(kind)
            return True

        return bool(self._writer.submit(work).result())

    def drop(self, entry_id: int, *, tenant: str) -> bool:
        """Delete an entry and return whether it existed. It stays counted as quarantined."""
        return bool(self._writer.submit(lambda each: drop(each, entry_id, tenant=tenant)).result())

    def drop_old(
        self,
        before_unix_nano: int,
        tenants: frozenset[str],
        *,
        are_meant: bool,
        kept: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Drop old entries of `tenants`, or of all others; return the number of records.

        Entries made within an interval of `kept` stay.
        """

        def work(connection: sqlite3.Connection) -> int:
            dropped = 0
            for entry_id, tenant, records, made in connection.execute(
                "SELECT id, tenant, records, quarantined_unix_nano FROM quarantine"
                " WHERE quarantined_unix_nano < ?",
                (before_unix_nano,),
            ).fetchall():
                is_kept = any(start <= made < end for start, end in kept)
                if (tenant in tenants) == are_meant and not is_kept:
                    drop(connection, entry_id, tenant=tenant)
                    dropped += records
            return dropped

        return int(self._writer.submit(work).result())


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
        bodies.hold(connection, each.kind, each.tenant, quarantined=len(each.data))


def drop(connection: sqlite3.Connection, entry_id: int, *, tenant: str) -> bool:
    """Delete an entry within the current transaction; return whether it existed."""
    found = _take(connection, entry_id, tenant)
    if found is not None:
        count(connection, "dropped", Kind(found.kind), found.records)
    return found is not None


def _take(connection: sqlite3.Connection, entry_id: int, tenant: str) -> QuarantineEntry | None:
    row = connection.execute(_ENTRY, (entry_id, tenant)).fetchone()
    if row is None:
        return None
    found = _entry(row)
    connection.execute("DELETE FROM quarantine WHERE id=?", (entry_id,))
    bodies.hold(connection, Kind(found.kind), tenant, quarantined=-found.size)
    return found


def _entry(row: tuple[object, ...]) -> QuarantineEntry:
    names = QuarantineEntry.__dataclass_fields__
    return QuarantineEntry(**dict(zip(names, row, strict=False)))  # type: ignore[arg-type]
