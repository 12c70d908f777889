"""Copy the readable contents of a damaged queue into a new one; count losses.

Copied are undelivered bodies, the outbox, quarantine, ledgers and counters. A damaged page costs only
its rows.
"""

import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tracereel_collector.model import Body, Kind
from tracereel_collector.queue import relays
from tracereel_collector.queue.append import Appender, count
from tracereel_collector.queue.database import HIGHEST, PAGE_SIZE, rescued_mark
from tracereel_collector.queue.ledger import is_ledger

_HEADER = b"SQLite format 3\0" + PAGE_SIZE.to_bytes(2, "big") + b"\2\2\0\x40\x20\x20"
"""First bytes of a SQLite file in WAL mode with pages of this size."""
_LONGEST = 1 << 40
_SMALLEST_ROW = 20
_KINDS = frozenset(kind.value for kind in Kind)
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "b": lambda value: isinstance(value, bytes),
    "k": lambda value: value in _KINDS,
    "n": lambda value: isinstance(value, int) and 0 <= value < HIGHEST,
    "t": lambda value: isinstance(value, str),
}
"""Type checks by letter: a damaged page can hold any type in any column."""
_QUARANTINE = (
    "id, kind, tenant, sequence_number, records, reason, quarantined_unix_nano, data,"
    " received_unix_nano"
)


def take_over(connection: sqlite3.Connection, appender: Appender, aside: Path, *, now: int) -> int:
    """Copy a damaged file in one transaction and mark it as rescued; return the number of bodies."""
    _mend_header(aside)
    with closing(sqlite3.connect(aside, isolation_level=None)) as damaged:
        connection.execute("BEGIN IMMEDIATE")
        found = _rows(damaged, "SELECT value FROM meta WHERE key='next_sequence_number'", "n")
        connection.execute(
            "UPDATE meta SET value=max(value, ?) WHERE key='next_sequence_number'",
            # If unreadable, use microseconds since 1970: higher than any number assigned so far.
            (found[0][0] if found else now // 1_000,),
        )
        rescued = _take_bodies(connection, appender, damaged)
        connection.executemany(
            "INSERT OR IGNORE INTO quarantine VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            _one_by_one(damaged, "quarantine", _QUARANTINE, "nktnntnbn"),
        )
        emitters = "SELECT tenant, emitter_id, seen, last_unix_nano FROM emitters"
        connection.executemany(
            "INSERT OR REPLACE INTO emitters VALUES (?, ?, ?, ?)",
            [row for row in _rows(damaged, emitters, "tttn") if is_ledger(row[2])],
        )
        connection.executemany(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)",
            _rows(damaged, "SELECT key, value FROM meta WHERE key='group'", "tt"),
        )
        # In the same transaction: after a crash before the commit, the rescue starts again.
        connection.execute("INSERT INTO meta VALUES (?, 1)", (rescued_mark(aside),))
        connection.execute("COMMIT")
    return rescued


def _take_bodies(
    connection: sqlite3.Connection, appender: Appender, damaged: sqlite3.Connection
) -> int:
    """Copy counters and undelivered bodies; count bodies that cannot be read as damaged."""
    # Unreadable counters are empty: counting then restarts from zero.
    counters = _rows(damaged, "SELECT name, kind, value FROM counters", "tkn")
    gone = ("stored", "duplicate", "quarantined", "relayed")
    signs = {"appended": 1, "retried": 1, **dict.fromkeys(gone, -1)}
    undelivered: Counter[str] = Counter()
    for name, kind, value in counters:
        undelivered[kind] += signs.get(name, 0) * value
    undelivered = +undelivered
    for name, kind, value in counters:
        # Undelivered records are counted when they are appended here, or as damaged below.
        twice = undelivered[kind] if name in ("received", "appended") else 0
        count(connection, name, Kind(kind), value - twice)
    query = "SELECT kind, first_body, last_body FROM batches WHERE done_unix_nano > 0"
    done = _rows(damaged, query, "knn")
    columns = "id, kind, tenant, records, received_unix_nano, data, checksum"
    rescued = 0
    found: Counter[str] = Counter()
    for body_id, kind, tenant, records, received, data, checksum in _one_by_one(
        damaged, "bodies", columns, "nktnnbn"
    ):
        is_delivered = any(kind == of and low <= body_id <= high for of, low, high in done)
        if is_delivered or zlib.crc32(data) != checksum:
            continue
        body = Body(
            kind=Kind(kind),
            tenant=tenant,
            received_unix_nano=received,
            data=data,
            records=records,
        )
        rescued += bool(appender.append(connection, body).appended)
        found[kind] += records
    found += _take_relays(connection, damaged)
    for kind, lost in (undelivered - found).items():
        for name in ("received", "appended", "quarantined", "damaged"):
            count(connection, name, Kind(kind), lost)
    return rescued


def _take_relays(connection: sqlite3.Connection, damaged: sqlite3.Connection) -> Counter[str]:
    """Copy the outbox and the marks of others; return the records of relays by kind."""
    found: Counter[str] = Counter()
    columns = "owner, kind, tenant, records, received_unix_nano, head, is_awaited, data, checksum"
    for *values, data, checksum in _one_by_one(damaged, "relays", columns, "tktnntnbn"):
        if zlib.crc32(data) != checksum:
            continue
        owner, kind, tenant, records, received, head, is_awaited = values
        relays.insert(
            connection,
            owner=owner,
            kind=Kind(kind),
            tenant=tenant,
            records=records,
            received_unix_nano=received,
            head=head,
            is_awaited=bool(is_awaited),
            data=data,
        )
        found[kind] += records
    marks = "SELECT source, last_id, last_unix_nano FROM relay_marks"
    connection.executemany(
        "INSERT OR REPLACE INTO relay_marks VALUES (?, ?, ?)", _rows(damaged, marks, "tnn")
    )
    return found


def _mend_header(path: Path) -> None:
    """Restore the SQLite header and pad the file to the size stated there.

    SQLite refuses to read a file with a wrong header or with fewer pages than the header states.
    """
    with path.open("r+b") as file:
        header = file.read(100)
        if header[:16] != _HEADER[:16] and header[16:24] != _HEADER[16:]:
            return
        file.seek(0)
        file.write(_HEADER)
        pages = int.from_bytes(header[28:32], "big")
        size = path.stat().st_size
        if pages * PAGE_SIZE > _LONGEST:
            file.seek(28)
            file.write((size // PAGE_SIZE).to_bytes(4, "big"))
        else:
            file.truncate(max(size, pages * PAGE_SIZE))


def _one_by_one(
    damaged: sqlite3.Connection, table: str, columns: str, shape: str
) -> Iterator[tuple[Any, ...]]:
    """Yield rows one by one, so that a bad page costs only its rows."""
    ends = [
        *_rows(damaged, f"SELECT min(id), max(id) FROM {table}", "nn"),
        *_rows(damaged, f"SELECT 1, seq FROM sqlite_sequence WHERE name='{table}'", "nn"),
    ]
    first, last = (ends[0][0], max(end[1] for end in ends)) if ends else (1, 0)
    path = damaged.execute("PRAGMA database_list").fetchone()[2]
    most = Path(path).stat().st_size // _SMALLEST_ROW
    for row_id in range(first, min(last, first + most) + 1):
        yield from _rows(damaged, f"SELECT {columns} FROM {table} WHERE id={row_id}", shape)


def _rows(damaged: sqlite3.Connection, query: str, shape: str) -> list[tuple[Any, ...]]:
    """Return the rows whose columns have the types of `shape`; empty if the file is damaged there."""
    try:
        found: Iterable[tuple[Any, ...]] = damaged.execute(query).fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return []
    return [
        row
        for row in found
        if all(_CHECKS[letter](value) for letter, value in zip(shape, row, strict=True))
    ]
