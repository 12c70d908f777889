"""Append transaction: drop duplicates, assign sequence numbers, store the body, update counters."""

import hashlib
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from tracereel_collector.model import SESSION_FLAG, SESSION_OWNER, Body, Kind, Owner, Receipt
from tracereel_collector.queue import bodies
from tracereel_collector.queue.deleted import DeletionMarks, without
from tracereel_collector.queue.ledger import Seen, new_positions
from tracereel_collector.queue.sessions import SessionOwners, flag, trim, without_claims

EMITTERS_CACHED = 10_000
MAX_EMITTERS = 500_000
"""Emitters kept; the least recent are forgotten and their resends are deduplicated at read time."""
COUNT_EVERY = 10_000
"""New emitters between two checks of the table's size."""
DIGEST_SECONDS = 900
"""Window in which identical bodies without emitter numbers are duplicates."""
REJECTED = "rejected:"
"""Prefix of the counter names of rejection reasons."""


def count(connection: sqlite3.Connection, name: str, kind: Kind, by: int) -> None:
    """Add to a conservation counter within the current transaction."""
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
    """Appends bodies within the commit thread's transactions and caches emitters."""

    def __init__(
        self, steady_nano: Callable[[], int], *, refuse_foreign_users: bool = False
    ) -> None:
        self._steady = steady_nano
        self._refuse_foreign_users = refuse_foreign_users
        self._seen: OrderedDict[tuple[str, str], Seen] = OrderedDict()
        self._sessions = SessionOwners()
        self.deleted = DeletionMarks()
        self.fresh: set[Kind] = set()
        """Kinds with bodies for delivery since the last commit."""
        self._version = 0
        self._new_emitters = 0

    def begin(self, connection: sqlite3.Connection) -> None:
        """Invalidate the caches if another process has written since the last transaction."""
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._seen.clear()
            self._sessions.forget()
            self.deleted.look_again()

    def forget(self) -> None:
        """Clear the caches: after a rollback they may be ahead of the file."""
        self._seen.clear()
        self._sessions.forget()
        self.deleted.forget()
        self.fresh.clear()

    def append(self, connection: sqlite3.Connection, body: Body) -> Receipt:
        """Store the new records of a body."""
        foreign: frozenset[Owner] = frozenset()
        refused = 0
        if self._refuse_foreign_users and body.owners:
            owners = self._sessions.mismatches(connection, body.tenant, body.owners, self._steady())
            if owners:
                foreign, whole = frozenset(owners), body
                body = without_claims(whole, foreign)
                refused = whole.records - body.records
        fresh = self._without_duplicates(connection, body) if body.records else None
        duplicates = body.records - (fresh.records if fresh else 0)
        late = 0
        if fresh and (marks := self.deleted.of(connection, body.tenant)):
            data, late = without(body.kind, fresh.data, marks)
            kept = fresh.records - late
            fresh = replace(fresh, data=data, records=kept) if data and kept else None
        if fresh and fresh.owners:
            fresh = self._with_flags(connection, fresh)
        count(connection, "received", body.kind, body.records + body.rejected + refused)
        count(connection, "appended", body.kind, body.records - late)
        count(connection, "duplicate", body.kind, duplicates)
        _count_rejected(connection, body)
        count(connection, "rejected", body.kind, late + refused)
        count(connection, f"{REJECTED}{SESSION_OWNER}", body.kind, refused)
        count(connection, f"{REJECTED}deleted", body.kind, late)
        number = body_id = None
        if fresh is not None:
            self.fresh.add(body.kind)
            number = _take_numbers(connection, fresh.records)
            body_id = bodies.insert(
                connection,
                kind=body.kind,
                tenant=body.tenant,
                number=number,
                records=fresh.records,
                received_unix_nano=body.received_unix_nano,
                data=fresh.data,
            )
        return Receipt(
            appended=fresh.records if fresh else 0,
            duplicates=duplicates,
            first_sequence_number=number,
            body_id=body_id,
            foreign=foreign,
            refused=refused,
        )

    def add_seen(
        self, connection: sqlite3.Connection, tenant: str, emitter: str, text: str, *, at: int
    ) -> None:
        """Add numbers that another ledger has seen."""
        seen = self._seen_of(connection, tenant, emitter)
        for first, last in Seen.parse(text).intervals:
            seen.add(first, last)
        connection.execute(
            "INSERT INTO emitters VALUES (?, ?, ?, ?) ON CONFLICT (tenant, emitter_id) DO UPDATE"
            " SET seen = excluded.seen, last_unix_nano = max(last_unix_nano, excluded.last_unix_nano)",
            (tenant, emitter, seen.dump(), at),
        )

    def _without_duplicates(self, connection: sqlite3.Connection, body: Body) -> Body | None:
        """Return the body without records seen before; None if no record is left."""
        emitters = {run.emitter_id for run in body.runs if run.emitter_id is not None}
        if not emitters:
            return body if _is_first(connection, body, now=self._steady()) else None
        seen = {emitter: self._seen_of(connection, body.tenant, emitter) for emitter in emitters}
        positions = new_positions(body.runs, seen)
        now = self._steady()
        connection.executemany(
            "INSERT OR REPLACE INTO emitters VALUES (?, ?, ?, ?)",
            [(body.tenant, emitter, numbers.dump(), now) for emitter, numbers in seen.items()],
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
        """Return the body with a flag on events that claim another user's session."""
        mismatched = self._sessions.mismatches(connection, body.tenant, body.owners, self._steady())
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
                    trim(connection, "emitters", "tenant, emitter_id", most=MAX_EMITTERS)
            seen = self._seen[key] = Seen.parse(row[0] if row else "")
            if len(self._seen) > EMITTERS_CACHED:
                self._seen.popitem(last=False)
        self._seen.move_to_end(key)
        return seen


def _is_first(connection: sqlite3.Connection, body: Body, *, now: int) -> bool:
    """Return whether the same bytes have not arrived within `DIGEST_SECONDS`."""
    digest = hashlib.blake2b(body.data, digest_size=16, salt=body.kind.encode())
    digest.update(b"\0" + body.tenant.encode())
    cursor = connection.execute(
        "INSERT INTO digests VALUES (?, ?) ON CONFLICT (digest) DO UPDATE"
        " SET received_unix_nano = excluded.received_unix_nano WHERE received_unix_nano < ?",
        (digest.digest(), now, now - DIGEST_SECONDS * 1_000_000_000),
    )
    return cursor.rowcount == 1


def _take_numbers(connection: sqlite3.Connection, how_many: int) -> int:
    row = connection.execute(
        "UPDATE meta SET value = value + ? WHERE key='next_sequence_number' RETURNING value",
        (how_many,),
    ).fetchone()
    return int(row[0]) - how_many
