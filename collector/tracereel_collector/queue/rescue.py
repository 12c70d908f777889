"""Copy the readable contents of a damaged queue into a new one; count losses."""

import sqlite3
from collections import Counter

from tracereel_collector.model import Body, Kind
from tracereel_collector.queue.append import Appender, count
from tracereel_collector.queue.database import Rescued, rescued_mark


def take_over(connection: sqlite3.Connection, appender: Appender, rescued: Rescued) -> int:
    """Copy bodies, quarantine, ledgers and counters in one transaction; return the number of bodies."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        "UPDATE meta SET value=max(value, ?) WHERE key='next_sequence_number'",
        (rescued.next_sequence_number,),
    )
    waited = _waited(rescued)
    for name, kind, value in rescued.counters:
        # Undelivered records are counted when they are appended here, or as damaged below.
        twice = waited[kind] if name in ("received", "appended") else 0
        count(connection, name, Kind(kind), value - twice)
    bodies = 0
    found: Counter[str] = Counter()
    for kind, tenant, records, received, data in rescued.bodies:
        body = Body(
            kind=Kind(kind),
            tenant=tenant,
            received_unix_nano=received,
            data=data,
            records=records,
        )
        bodies += bool(appender.append(connection, body).appended)
        found[kind] += records
    for kind, lost in (waited - found).items():
        for name in ("received", "appended", "quarantined", "damaged"):
            count(connection, name, Kind(kind), lost)
    connection.executemany(
        "INSERT OR IGNORE INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rescued.quarantine
    )
    connection.executemany("INSERT OR REPLACE INTO emitters VALUES (?, ?, ?, ?)", rescued.emitters)
    # In the same transaction: after a crash before the commit, the rescue starts again.
    connection.execute("INSERT INTO meta VALUES (?, 1)", (rescued_mark(rescued.aside),))
    connection.execute("COMMIT")
    return bodies


def _waited(rescued: Rescued) -> Counter[str]:
    """Return the acknowledged and undelivered records by kind, according to the counters."""
    signs = {"appended": 1, "stored": -1, "duplicate": -1, "quarantined": -1, "retried": 1}
    waited: Counter[str] = Counter()
    for name, kind, value in rescued.counters:
        waited[kind] += signs.get(name, 0) * value
    return +waited
