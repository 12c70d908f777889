"""Outbox: acknowledged bodies that belong to another member of the group, until it has taken them.

The owner keeps the highest id taken from each queue, in the transaction that takes the bodies, so that
a relay whose answer was lost is recognised however old it is.
"""

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tracereel_collector.model import Body, EmitterRun, Kind, Receipt, Relay, RelayReceipt
from tracereel_collector.queue import bodies
from tracereel_collector.queue.append import Appender, count
from tracereel_collector.queue.database import SharedReader
from tracereel_collector.queue.writer import CommitThread

MARK_SECONDS: Final = 180 * 24 * 3600
"""Time until the mark of a silent queue is forgotten."""
RECEIPT_SECONDS: Final = 600
_SECOND: Final = 1_000_000_000
_COLUMNS: Final = "id, kind, tenant, records, received_unix_nano, head, is_awaited, checksum, data"


class Head(msgspec.Struct, frozen=True, gc=False):
    """Data that an owner needs of a body beside its bytes."""

    runs: tuple[tuple[str | None, int, int], ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    passed: str = ""


_HEAD: Final = msgspec.json.Decoder(Head)
_RECEIPT: Final = msgspec.json.Decoder(RelayReceipt)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Relays to one owner in order, and the ids of those that are damaged on disk."""

    relays: tuple[Relay, ...]
    damaged: tuple[int, ...]


def lane(owner: str) -> str:
    """Return the name by which the bytes held for an owner are counted, in place of a kind."""
    return f"relay:{owner}"


class Outbox:
    """Relays of a queue; uses the connections of the queue."""

    def __init__(
        self, writer: CommitThread, reader: SharedReader, *, now_unix_nano: Callable[[], int]
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._now = now_unix_nano

    def next(self, owner: str, *, max_relays: int, max_bytes: int) -> Outgoing:
        """Return the oldest relays to an owner, at least one if there are any."""
        found: list[Relay] = []
        damaged: list[int] = []
        size = 0
        sizes = self._reader.rows(
            "SELECT id, bytes FROM relays WHERE owner=? ORDER BY id LIMIT ?", owner, max_relays
        )
        for relay_id, length in sizes:
            size += length
            if found and size > max_bytes:
                break
            for row in self._reader.rows(f"SELECT {_COLUMNS} FROM relays WHERE id=?", relay_id):
                relay = _readable(row)
                if relay is None:
                    damaged.append(relay_id)
                else:
                    found.append(relay)
        return Outgoing(tuple(found), tuple(damaged))

    def done(self, outgoing: Outgoing, receipts: Sequence[RelayReceipt | None]) -> None:
        """Delete relays that their owner has taken, and keep the receipts that are awaited.

        Damaged ones are deleted too and counted as quarantined and damaged, like damaged bodies.
        """

        def work(connection: sqlite3.Connection) -> None:
            now = self._now()
            for relay, receipt in zip(outgoing.relays, receipts, strict=True):
                _delete(connection, relay.id, "relayed")
                if relay.is_awaited and receipt is not None:
                    connection.execute(
                        "INSERT OR REPLACE INTO relay_receipts VALUES (?, ?, ?)",
                        (relay.id, msgspec.json.encode(receipt).decode(), now),
                    )
            for relay_id in outgoing.damaged:
                _delete(connection, relay_id, "quarantined", "damaged")
            connection.execute(
                "DELETE FROM relay_receipts WHERE given_unix_nano < ?",
                (now - RECEIPT_SECONDS * _SECOND,),
            )

        self._writer.submit(work).result()

    def is_waiting(self, relay_id: int) -> bool:
        """Return whether a relay has not been taken by its owner yet."""
        return bool(self._reader.rows("SELECT 1 FROM relays WHERE id=?", relay_id))

    def receipt(self, relay_id: int) -> RelayReceipt | None:
        """Return the owner's receipt of an awaited relay; None if it was a repeat or is old."""
        rows = self._reader.rows("SELECT receipt FROM relay_receipts WHERE id=?", relay_id)
        return _RECEIPT.decode(rows[0][0]) if rows else None

    def newest(self) -> int:
        """Return the id of the newest relay that ever was."""
        rows = self._reader.rows("SELECT seq FROM sqlite_sequence WHERE name='relays'")
        return int(rows[0][0]) if rows else 0

    def waiting_of(self, tenant: str, *, up_to: int) -> int:
        """Return how many relays of a tenant with ids up to `up_to` wait."""
        rows = self._reader.rows(
            "SELECT count(*) FROM relays WHERE tenant=? AND id<=?", tenant, up_to
        )
        return int(rows[0][0])

    def oldest_unix_nano(self) -> int | None:
        """Return the arrival of the oldest relay; None without any."""
        rows = self._reader.rows("SELECT min(received_unix_nano) FROM relays")
        oldest: int | None = rows[0][0]
        return oldest


def put(
    connection: sqlite3.Connection,
    *,
    body: Body,
    owner: str,
    passed: str,
    is_awaited: bool,
    is_counted: bool = True,
) -> Receipt:
    """Put a body into the outbox within the current transaction, and count it."""
    head = Head(
        runs=tuple((run.emitter_id, run.first, run.count) for run in body.runs),
        owners=body.owners,
        passed=passed,
    )
    relay_id = insert(
        connection,
        owner=owner,
        kind=body.kind,
        tenant=body.tenant,
        records=body.records,
        received_unix_nano=body.received_unix_nano,
        head=msgspec.json.encode(head).decode(),
        is_awaited=is_awaited,
        data=body.data,
        is_counted=is_counted,
    )
    return Receipt(
        appended=body.records,
        duplicates=0,
        first_sequence_number=None,
        body_id=None,
        relayed=((owner, relay_id),),
    )


def insert(
    connection: sqlite3.Connection,
    *,
    owner: str,
    kind: Kind,
    tenant: str,
    records: int,
    received_unix_nano: int,
    head: str,
    is_awaited: bool,
    data: bytes,
    is_counted: bool = True,
) -> int:
    """Insert and count a relay; return its id."""
    for name in ("received", "appended") if is_counted else ():
        count(connection, name, kind, records)
    bodies.hold(connection, lane(owner), tenant, pending=len(data))
    cursor = connection.execute(
        "INSERT INTO relays (owner, kind, tenant, records, bytes, received_unix_nano, head,"
        " is_awaited, checksum, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(owner, kind, tenant, records, len(data), received_unix_nano, head),
            *(is_awaited, zlib.crc32(data), data),
        ),
    )
    return cursor.lastrowid or 0


def take(
    connection: sqlite3.Connection,
    appender: Appender,
    *,
    source: str,
    relays: Sequence[Relay],
    now: int,
) -> list[Receipt | None]:
    """Append the bodies of another queue's outbox; None for those that were taken before."""
    row = connection.execute("SELECT last_id FROM relay_marks WHERE source=?", (source,)).fetchone()
    last = row[0] if row else 0
    receipts: list[Receipt | None] = []
    for relay in relays:
        if relay.id <= last:
            receipts.append(None)
            continue
        last = relay.id
        count(connection, "from_peers", relay.body.kind, relay.body.records)
        receipts.append(appender.append(connection, relay.body))
    connection.execute("INSERT OR REPLACE INTO relay_marks VALUES (?, ?, ?)", (source, last, now))
    return receipts


def reroute(
    connection: sqlite3.Connection, parts_of: Callable[[Body], list[tuple[str, Body]]]
) -> None:
    """Give the relays to their owners in a new list of members, within the current transaction.

    A relay that goes to another owner gets a new id: the new owner may have taken higher ones.
    """
    ids = connection.execute("SELECT id, owner FROM relays ORDER BY id").fetchall()
    for relay_id, before in ids:
        row = connection.execute(
            f"SELECT {_COLUMNS} FROM relays WHERE id=?", (relay_id,)
        ).fetchone()
        relay = _readable(row)
        if relay is None:
            continue  # it is counted as damaged by whichever thread finds it
        parts = parts_of(relay.body)
        if [owner for owner, _ in parts] == [before]:
            continue
        _delete(connection, relay_id)
        for owner, part in parts:
            put(
                connection,
                body=part,
                owner=owner,
                passed=relay.passed,
                is_awaited=False,
                is_counted=False,
            )


def forget_old(connection: sqlite3.Connection, *, now: int) -> None:
    """Delete the marks of queues that were silent for `MARK_SECONDS`."""
    connection.execute(
        "DELETE FROM relay_marks WHERE last_unix_nano < ?", (now - MARK_SECONDS * _SECOND,)
    )


def measure(connection: sqlite3.Connection) -> None:
    """Add the bytes of all relays to the held bytes, which are being recalculated."""
    connection.execute(
        "INSERT INTO held_bytes SELECT 'relay:' || owner, tenant, sum(bytes), 0 FROM relays"
        " GROUP BY owner, tenant"
    )


def _delete(connection: sqlite3.Connection, relay_id: int, *counters: str) -> None:
    row = connection.execute(
        "DELETE FROM relays WHERE id=? RETURNING owner, kind, tenant, records, bytes", (relay_id,)
    ).fetchone()
    if row is None:
        return
    owner, kind, tenant, records, size = row
    bodies.hold(connection, lane(owner), tenant, pending=-size)
    connection.execute("DELETE FROM held_bytes WHERE pending <= 0 AND quarantined <= 0")
    for name in counters:
        count(connection, name, Kind(kind), records)


def _readable(row: tuple[Any, ...]) -> Relay | None:
    relay_id, kind, tenant, records, received, head, is_awaited, checksum, data = row
    if zlib.crc32(data) != checksum:
        return None
    try:
        known = _HEAD.decode(head)
    except msgspec.DecodeError:
        return None
    body = Body(
        kind=Kind(kind),
        tenant=tenant,
        received_unix_nano=received,
        data=data,
        records=records,
        runs=tuple(EmitterRun(*run) for run in known.runs),
        owners=known.owners,
    )
    return Relay(
        id=relay_id,
        body=body,
        passed=known.passed,
        is_awaited=bool(is_awaited),
    )
