"""The append transaction: duplicates dropped, numbers given, the body kept, everything counted."""

import hashlib
import sqlite3
from collections import OrderedDict
from dataclasses import replace

from tracereel_collector.model import SESSION_FLAG, Body, Kind, Receipt
from tracereel_collector.queue import gauges
from tracereel_collector.queue.database import checksum
from tracereel_collector.queue.deleted import Deleted, without
from tracereel_collector.queue.ledger import Seen, new_positions
from tracereel_collector.queue.sessions import Sessions, flag

EMITTERS_CACHED = 10_000
MAX_EMITTERS = 500_000
"""Beyond these the ones silent longest are forgotten; what they resend is removed when reading."""
COUNT_EVERY = 10_000
"""New emitters between two looks at how many there are."""
REJECTED = "rejected:"
"""Before a reason, the name of its counter."""


def count(connection: sqlite3.Connection, name: str, kind: Kind, by: int) -> None:
    """Raise a conservation counter in the transaction under way."""
    if by:
        connection.execute(
            "INSERT INTO counters VALUES (?, ?, ?)"
            " ON CONFLICT (name, kind) DO UPDATE SET value = value + excluded.value",
            (name, kind, by),
        )


def _count_rejected(connection: sqlite3.Connection, body: Body) -> None:
    count(connection, "rejected", body.kind, body.rejected)
    named = 0
    for reason, records in body.rejected_reasons:
        count(connection, f"{REJECTED}{reason}", body.kind, records)
        named += records
    count(connection, f"{REJECTED}other", body.kind, body.rejected - named)


class Appender:
    """Appends bodies within a transaction of the commit thread; remembers emitters between them."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], Seen] = OrderedDict()
        self._sessions = Sessions()
        self._deleted = Deleted()
        self._version = 0
        self._new_emitters = 0

    def begin(self, connection: sqlite3.Connection) -> None:
        """A transaction has begun: what another process wrote since the last one counts."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._seen.clear()
            self._sessions.forget()
            self._deleted.look_again()

    def look_again(self) -> None:
        """What was deleted has changed in this transaction."""
        self._deleted.look_again()

    def forget(self) -> None:
        """After a rollback, what is remembered may be ahead of the file."""
        self._seen.clear()
        self._sessions.forget()
        self._deleted.forget()

    def append(self, connection: sqlite3.Connection, body: Body) -> Receipt:
        """Keep what is new in a body."""
        fresh = self._without_duplicates(connection, body) if body.records else None
        duplicates = body.records - (fresh.records if fresh else 0)
        late = 0
        if fresh and (marks := self._deleted.of(connection, body.tenant)):
            data, late = without(body.kind, fresh.data, marks)
            fresh = replace(fresh, data=data, records=fresh.records - late) if data else None
            if fresh and not fresh.records:
                fresh = None
        if fresh and fresh.owners:
            fresh = self._with_flags(connection, fresh)
        kept = fresh.records if fresh else 0
        count(connection, "received", body.kind, body.records + body.rejected)
        count(connection, "appended", body.kind, body.records - late)
        count(connection, "duplicate", body.kind, duplicates)
        _count_rejected(connection, body)
        count(connection, "rejected", body.kind, late)
        count(connection, f"{REJECTED}deleted", body.kind, late)
        number = _take_numbers(connection, kept) if fresh else None
        if fresh:
            gauges.add(connection, gauges.PENDING, body.kind, len(fresh.data))
            gauges.add(connection, gauges.UNSEALED, body.kind, len(fresh.data))
        return Receipt(
            appended=kept,
            duplicates=duplicates,
            first_sequence_number=number,
            body_id=_insert(connection, fresh, number) if fresh and number else None,
            size=len(fresh.data) if fresh else 0,
        )

    def _without_duplicates(self, connection: sqlite3.Connection, body: Body) -> Body | None:
        """The body less what was seen before; None when nothing is left."""
        emitters = {run.emitter_id for run in body.runs if run.emitter_id is not None}
        if not emitters:
            return body if _is_first(connection, body) else None
        seen = {emitter: self._seen_of(connection, body.tenant, emitter) for emitter in emitters}
        positions = new_positions(body.runs, seen)
        connection.executemany(
            "INSERT OR REPLACE INTO emitters VALUES (?, ?, ?, ?)",
            [
                (body.tenant, emitter, numbers.dump(), body.received_unix_nano)
                for emitter, numbers in seen.items()
            ],
        )
        kept = sum(end - start for start, end in positions)
        if kept == body.records:
            return body
        if not kept:
            return None
        lines = body.data.split(b"\n")
        data = b"\n".join(line for start, end in positions for line in lines[start:end])
        return replace(body, data=data, records=kept)

    def _with_flags(self, connection: sqlite3.Connection, body: Body) -> Body:
        """The body with a flag on events that claim a session of somebody else's."""
        mismatched = self._sessions.mismatches(
            connection, body.tenant, body.owners, body.received_unix_nano
        )
        if not mismatched:
            return body
        data, flagged = flag(body.data, mismatched)
        count(connection, SESSION_FLAG, body.kind, flagged)
        return replace(body, data=data)

    def _seen_of(self, connection: sqlite3.Connection, tenant: str, emitter: str) -> Seen:
        key = (tenant, emitter)
        seen = self._seen.get(key)
        if seen is None:
            row = connection.execute(
                "SELECT seen FROM emitters WHERE tenant=? AND emitter_id=?", key
            ).fetchone()
            if row is None:
                self._new_emitters += 1
                if self._new_emitters >= COUNT_EVERY:
                    self._new_emitters = 0
                    _trim_emitters(connection)
            seen = self._seen[key] = Seen.parse(row[0] if row else "")
            if len(self._seen) > EMITTERS_CACHED:
                self._seen.popitem(last=False)
        self._seen.move_to_end(key)
        return seen


def _trim_emitters(connection: sqlite3.Connection) -> None:
    over = connection.execute("SELECT count(*) FROM emitters").fetchone()[0] - MAX_EMITTERS
    if over > 0:
        connection.execute(
            "DELETE FROM emitters WHERE (tenant, emitter_id) IN"
            " (SELECT tenant, emitter_id FROM emitters ORDER BY last_unix_nano LIMIT ?)",
            (over,),
        )


def _is_first(connection: sqlite3.Connection, body: Body) -> bool:
    """Whether these very bytes have not come before, lately."""
    digest = hashlib.blake2b(body.data, digest_size=16, salt=body.kind.encode())
    digest.update(b"\0" + body.tenant.encode())
    cursor = connection.execute(
        "INSERT OR IGNORE INTO digests VALUES (?, ?)", (digest.digest(), body.received_unix_nano)
    )
    return cursor.rowcount == 1


def _take_numbers(connection: sqlite3.Connection, how_many: int) -> int:
    row = connection.execute(
        "UPDATE meta SET value = value + ? WHERE key='next_sequence_number' RETURNING value",
        (how_many,),
    ).fetchone()
    return int(row[0]) - how_many


def _insert(connection: sqlite3.Connection, body: Body, first_number: int) -> int:
    cursor = connection.execute(
        "INSERT INTO bodies (kind, tenant, first_sequence_number, records, bytes,"
        " received_unix_nano, checksum, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            body.kind,
            body.tenant,
            first_number,
            body.records,
            len(body.data),
            body.received_unix_nano,
            checksum(body.data),
            body.data,
        ),
    )
    assert cursor.lastrowid is not None  # noqa: S101 - an INSERT always has one
    return cursor.lastrowid
