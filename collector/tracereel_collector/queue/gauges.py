"""How many bytes wait, kept in the transactions that change it, so that every process reads the same."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tracereel_collector.model import Kind

PENDING, UNSEALED, QUARANTINED = "pending", "unsealed", "quarantined"
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
    """What waits where."""

    pending: int = 0
    quarantined: int = 0
    unsealed: dict[str, int] = field(default_factory=dict)


def add(connection: sqlite3.Connection, name: str, kind: Kind, by: int) -> None:
    """Change a gauge in the transaction under way."""
    connection.execute(
        "INSERT INTO gauges VALUES (?, ?, ?)"
        " ON CONFLICT (name, kind) DO UPDATE SET value = value + excluded.value",
        (name, kind, by),
    )


def read(connection: sqlite3.Connection) -> Bytes:
    """All of them, as committed (within a transaction: as it stands)."""
    totals = {PENDING: 0, QUARANTINED: 0}
    unsealed: dict[str, int] = {}
    for name, kind, value in connection.execute("SELECT name, kind, value FROM gauges"):
        if name == UNSEALED:
            unsealed[kind] = value
        else:
            totals[name] += value
    return Bytes(totals[PENDING], totals[QUARANTINED], unsealed)


def measure(connection: sqlite3.Connection) -> None:
    """Set them from what is really there: whatever a version before this one did not write down."""
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
    """When the oldest body came that is not in the store yet; None when nothing waits."""
    return min((row[0] for kind in Kind for row in read(_OLDEST, kind)), default=None)
