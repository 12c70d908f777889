"""Batches: seal, mark done, delete after the retention time."""

import sqlite3

from tracereel_collector.model import Batch, Kind, Quarantined
from tracereel_collector.queue import bodies, deleted, quarantine, relays, sessions
from tracereel_collector.queue.append import DIGEST_SECONDS, count

EMITTER_SECONDS = 180 * 24 * 3600
"""Time until a silent emitter is forgotten; later resends are deduplicated at read time.

Half a year: machines may come back after months and resend unacknowledged events.
"""
RETAINED_BYTES = 64 * 1024 * 1024
"""Limit for delivered bodies; older ones beyond it are deleted regardless of age."""
_SECOND = 1_000_000_000
_OPEN = (
    "SELECT id, first_body, last_body, records, bytes FROM batches"
    " WHERE kind=? AND done_unix_nano IS NULL ORDER BY id LIMIT 1"
)
_WAITING = (
    "SELECT id, records, bytes FROM bodies"
    " WHERE kind=?1 AND id > coalesce((SELECT max(last_body) FROM batches WHERE kind=?1), 0)"
    " ORDER BY id"
)


def open_or_seal(
    connection: sqlite3.Connection,
    kind: Kind,
    *,
    queue_id: str,
    max_records: int,
    max_bytes: int,
) -> Batch | None:
    """Return the oldest open batch, or seal a new one; None if no bodies wait."""
    row = connection.execute(_OPEN, (kind,)).fetchone()
    if row is None:
        row = _seal(connection, kind, max_records, max_bytes)
    if row is None:
        return None
    batch_id, first, last, records, size = row
    return Batch(
        id=batch_id,
        kind=kind,
        first_body=first,
        last_body=last,
        records=records,
        size=size,
        token=f"{queue_id}:{batch_id}",
    )


def _seal(
    connection: sqlite3.Connection, kind: Kind, max_records: int, max_bytes: int
) -> tuple[int, int, int, int, int] | None:
    first = last = records = size = 0
    for body_id, body_records, body_bytes in connection.execute(_WAITING, (kind,)):
        full = records + body_records > max_records or size + body_bytes > max_bytes
        if first and full:
            break
        first, last = first or body_id, body_id
        records, size = records + body_records, size + body_bytes
    if not first:
        return None
    cursor = connection.execute(
        "INSERT INTO batches (kind, first_body, last_body, records, bytes) VALUES (?, ?, ?, ?, ?)",
        (kind, first, last, records, size),
    )
    return cursor.lastrowid or 0, first, last, records, size


def mark_done(
    connection: sqlite3.Connection,
    batch: Batch,
    *,
    quarantined: list[Quarantined],
    stored: int,
    now: int,
    steady: int,
) -> None:
    """Record that a batch is in the store, except for its quarantined records."""
    connection.execute("UPDATE batches SET done_unix_nano=? WHERE id=?", (steady, batch.id))
    quarantine.put(connection, quarantined, now=now)
    bodies.release(connection, batch)
    count(connection, "stored", batch.kind, stored)
    # Records neither stored nor in `quarantined` were damaged on disk: they must be counted too.
    count(connection, "quarantined", batch.kind, batch.records - stored)
    named = sum(each.records for each in quarantined)
    count(connection, "damaged", batch.kind, batch.records - stored - named)


def forget_old(connection: sqlite3.Connection, *, now: int, retain_seconds: float) -> None:
    """Delete old delivered bodies, digests, emitters, sessions and deletion marks.

    `now` is steady time, like all times that it is compared with.
    """
    kept_bytes = 0
    for batch_id, kind, first, last, size, done in connection.execute(
        "SELECT id, kind, first_body, last_body, bytes, done_unix_nano FROM batches"
        " WHERE done_unix_nano IS NOT NULL ORDER BY id DESC"
    ).fetchall():
        kept_bytes += size
        if kept_bytes <= RETAINED_BYTES and done > now - retain_seconds * _SECOND:
            continue
        connection.execute(
            "DELETE FROM bodies WHERE kind=? AND id BETWEEN ? AND ?", (kind, first, last)
        )
        connection.execute("DELETE FROM batches WHERE id=?", (batch_id,))
    connection.execute(
        "DELETE FROM digests WHERE received_unix_nano < ?", (now - DIGEST_SECONDS * _SECOND,)
    )
    connection.execute(
        "DELETE FROM emitters WHERE last_unix_nano < ?", (now - EMITTER_SECONDS * _SECOND,)
    )
    sessions.forget_old(connection, now=now)
    relays.forget_old(connection, now=now)
    deleted.forget_old(connection, now=now)
