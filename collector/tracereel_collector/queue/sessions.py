"""Session owners: the first user seen within a tenant. Events of other users are flagged or refused.

Owners are stored in the append transaction, so that all workers agree after a crash too. A session is
forgotten after 30 silent days, or as the oldest of more than 500,000; its next user becomes the owner.
"""

import hashlib
import sqlite3
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

import msgspec

from tracereel_collector.model import SESSION_FLAG, Body, EmitterRun, Owner

SESSION_SECONDS: Final = 30 * 24 * 3600
MAX_SESSIONS: Final = 500_000
COUNT_EVERY: Final = 10_000
"""New sessions between two checks of the table's size."""
CACHED: Final = 20_000
_TOUCH_NANO: Final = 3600 * 1_000_000_000
"""Age at which a session's last time is updated."""
_FLAGGED: Final = b',"%b":true}' % SESSION_FLAG.encode()


class _Claims(msgspec.Struct, gc=False):
    session_id: str | None = None
    user_id: str | None = None


_CLAIMS: Final = msgspec.json.Decoder(_Claims)


class SessionOwners:
    """Finds claims by users who are not the session's owner; caches owners."""

    def __init__(self) -> None:
        self._owners: OrderedDict[tuple[str, str], tuple[bytes, int]] = OrderedDict()
        self._new = COUNT_EVERY

    def forget(self) -> None:
        """Clear the cache: after a rollback it may be ahead of the file."""
        self._owners.clear()

    def mismatches(
        self, connection: sqlite3.Connection, tenant: str, owners: Iterable[Owner], now: int
    ) -> set[Owner]:
        """Return the pairs of session and user in which the user is not the owner."""
        return {
            (session, user)
            for session, user in owners
            if self._owner(connection, tenant, session, user, now) != _digest(user)
        }

    def _owner(
        self, connection: sqlite3.Connection, tenant: str, session: str, user: str, now: int
    ) -> bytes:
        known = self._owners.get((tenant, session))
        if known is None or now - known[1] > _TOUCH_NANO:
            known = self._look_up(connection, tenant, session, user, now)
            self._owners[tenant, session] = known
            if len(self._owners) > CACHED:
                self._owners.popitem(last=False)
        self._owners.move_to_end((tenant, session))
        return known[0]

    def _look_up(
        self, connection: sqlite3.Connection, tenant: str, session: str, user: str, now: int
    ) -> tuple[bytes, int]:
        name = _digest(tenant, session)
        row = connection.execute(
            "SELECT owner, last_unix_nano FROM sessions WHERE session=?", (name,)
        ).fetchone()
        if row is None:
            self._new += 1
            if self._new >= COUNT_EVERY:
                self._new = 0
                trim(connection, "sessions", "session", most=MAX_SESSIONS)
            row = (_digest(user), now)
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?)", (name, *row))
        elif now - row[1] > _TOUCH_NANO:
            row = (row[0], now)
            connection.execute("UPDATE sessions SET last_unix_nano=? WHERE session=?", (now, name))
        return bytes(row[0]), int(row[1])


def forget_old(connection: sqlite3.Connection, *, now: int) -> None:
    """Delete sessions that were silent for `SESSION_SECONDS`."""
    connection.execute(
        "DELETE FROM sessions WHERE last_unix_nano < ?", (now - SESSION_SECONDS * 1_000_000_000,)
    )


def flag(data: bytes, mismatched: set[Owner]) -> tuple[bytes, int]:
    """Flag every event that makes one of these claims; return the body and their number."""
    lines = data.split(b"\n")
    flagged = 0
    for index, line in enumerate(lines):
        if makes_claim(line, mismatched):
            lines[index] = line.rstrip()[:-1] + _FLAGGED
            flagged += 1
    return b"\n".join(lines), flagged


def makes_claim(line: bytes, claimed: Collection[Owner]) -> bool:
    """Return whether an event claims one of these pairs of session and user."""
    claims = _CLAIMS.decode(line)
    return (claims.session_id, claims.user_id) in claimed


def without_claims(body: Body, mismatched: Collection[Owner]) -> Body:
    """Return a body without the events that make one of these claims."""
    lines = body.data.split(b"\n")
    kept = [index for index, line in enumerate(lines) if not makes_claim(line, mismatched)]
    numbers = [(run.emitter_id, run.first + each) for run in body.runs for each in range(run.count)]
    return replace(
        body,
        data=b"\n".join(lines[index] for index in kept),
        records=len(kept),
        # Without emitters, records are deduplicated by the bytes of the whole body.
        runs=tuple(EmitterRun(*numbers[index], 1) for index in kept) if body.runs else (),
        owners=tuple(owner for owner in body.owners if owner not in mismatched),
    )


def trim(connection: sqlite3.Connection, table: str, key: str, *, most: int) -> None:
    """Delete the least recent rows of a table beyond a number."""
    over = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] - most
    if over > 0:
        connection.execute(
            f"DELETE FROM {table} WHERE ({key}) IN"
            f" (SELECT {key} FROM {table} ORDER BY last_unix_nano LIMIT ?)",
            (over,),
        )


def _digest(*texts: str) -> bytes:
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=16).digest()
