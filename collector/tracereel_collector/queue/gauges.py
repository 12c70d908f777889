"""Gauges of queued bytes, updated transactionally so that all processes read the same values."""

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tracereel_collector.model import Kind

PENDING, UNSEALED, QUARANTINED = "pending", "unsealed", "quarantined"
ALL = "SELECT name, kind, value FROM gauges"
_WAITING = (
    "SELECT coalesce(sum(bytes), 0) FROM bodies"
    " WHERE kind=?1 AND id > coalesce((SELECT max(last_body) FROM batches WHERE kind=?1), 0)"
)

_OLDEST = (
    "SELECT received_unix_nano FROM bodies WHERE id = coalesce("
    "(SELECT first_body FROM batches WHERE kind=?1 AND done_unix_nano IS NULL ORDER BY id LIMIT 1),"
    " (SELECT min(id) FROM bodies WHERE kind=?1"
    " AND id > coalesce((SELECT max(last_body) FROM batches WHERE kind=?1), 0)))"
)


@dataclass(frozen=True, slots=True)
class Bytes:
    """Queued bytes by state."""

    pending: int = 0
    quarantined: int = 0
    unsealed: dict[str, int] = field(default_factory=dict)


def add(connection: sqlite3.Connection, name: str, kind: Kind, by: int) -> None:
    """Add to a gauge within the current transaction."""
    connection.execute(
        "INSERT INTO gauges VALUES (?, ?, ?)"
        " ON CONFLICT (name, kind) DO UPDATE SET value = value + excluded.value",
        (name, kind, by),
    )


def totals(rows: Iterable[tuple[str, str, int]]) -> Bytes:
    """Return all gauges from the rows of `ALL`."""
    sums = {PENDING: 0, QUARANTINED: 0}
    unsealed: dict[str, int] = {}
    for name, kind, value in rows:
        if name == UNSEALED:
            unsealed[kind] = value
        else:
            sums[name] += value
    return Bytes(sums[PENDING], sums[QUARANTINED], unsealed)


def measure(connection: sqlite3.Connection) -> None:
    """Recalculate all gauges from the tables, when the owner process starts."""
    connection.execute("DELETE FROM gauges")
    for kind in Kind:
        total, done = connection.execute(
            "SELECT (SELECT coalesce(sum(bytes), 0) FROM bodies WHERE kind=?1), (SELECT"
            " coalesce(sum(bytes), 0) FROM batches WHERE kind=?1 AND done_unix_nano IS NOT NULL)",
            (kind,),
        ).fetchone()
        (waiting,) = connection.execute(_WAITING, (kind,)).fetchone()
        (aside,) = connection.execute(
            "SELECT coalesce(sum(length(data)), 0) FROM quarantine WHERE kind=?", (kind,)
        ).fetchone()
        add(connection, PENDING, kind, total - done)
        add(connection, UNSEALED, kind, waiting)
        add(connection, QUARANTINED, kind, aside)


def oldest_unix_nano(read: Callable[..., list[Any]]) -> int | None:
    """Return the arrival time of the oldest undelivered body; None if none waits."""
    return min((row[0] for kind in Kind for row in read(_OLDEST, kind)), default=None)
