"""Whether this queue's ledger may decide: the members that it was last active among, and hand-overs.

A ledger is a set that only grows, so that numbers of another one may be added at any time and twice.
After the list of members has changed, a member owns nothing until every member of the old and the new
list has the new one and has handed its ledger over; until then it keeps everything in its outbox.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tracereel_collector.errors import StartupError
from tracereel_collector.model import Body
from tracereel_collector.queue import relays
from tracereel_collector.queue.append import DIGEST_SECONDS, Appender
from tracereel_collector.queue.database import SharedReader
from tracereel_collector.queue.writer import CommitThread

PAGE: Final = 2_000
_KEY: Final = "group"
PartsOf = Callable[[Body], list[tuple[str, Body]]]


class GroupState(msgspec.Struct, frozen=True):
    """State of the group as a queue knows it."""

    name: str = ""
    known: tuple[str, ...] = ()
    """Members of the list under which this queue last owned anything, and of those tried since."""
    owns: bool = False
    """Whether this queue owns its share of the list in the settings."""
    sent: bool = False
    """Whether this ledger was handed to a member for that list."""
    target: tuple[str, ...] = ()
    """Members of the list in the settings."""
    got: dict[str, tuple[str, ...]] = {}
    """Members that have handed over for that list, with the members that they know."""
    heard: dict[str, str] = {}
    """Ids of the queues of the members that have handed over for that list."""
    ids: dict[str, str] = {}
    """The same of the last list under which this queue owned anything."""
    was_replaced: bool = False
    """Whether others know this member with another queue."""
    seeded: bool = False
    """Whether the numbers in the store were added for that list."""

    @property
    def is_active(self) -> bool:
        """Whether this queue owns its share of the emitters."""
        return self.owns and self.name in self.target

    def missing(self, lost: Iterable[str]) -> list[str]:
        """Return the members whose ledgers are awaited."""
        known = {*self.target, *self.known}
        for members in self.got.values():
            known.update(members)
        return sorted(known - {self.name} - set(self.got) - set(lost))

    def needs_seed(self, lost: Iterable[str]) -> bool:
        """Return whether numbers of the store must be added for a ledger that is lost."""
        return not self.seeded and (bool(set(lost)) or self.was_replaced)


class LedgerPage(msgspec.Struct, frozen=True):
    """Part of a ledger on its way to the new owner; ages instead of times, for clocks differ."""

    sender: str
    queue_id: str = ""
    known: tuple[str, ...] = ()
    taker_id: str = ""
    """Id of the queue that the receiver had when the sender became active; empty if unknown."""
    emitters: tuple[tuple[str, str, str, int], ...] = ()
    """Tenant, emitter, intervals, age in nanoseconds."""
    digests: tuple[tuple[str, int], ...] = ()
    """Digest in hexadecimal and age."""
    is_last: bool = False


_STATE: Final = msgspec.json.Decoder(GroupState)
PAGES: Final = msgspec.json.Decoder(LedgerPage)


@dataclass(frozen=True, slots=True)
class Membership:
    """State of the group in the queue's file; uses the connections of the queue."""

    writer: CommitThread
    reader: SharedReader
    appender: Appender
    steady: Callable[[], int]
    queue_id: str

    def state(self) -> GroupState:
        """Return the committed state."""
        return _state(self.reader.rows("SELECT value FROM meta WHERE key=?", _KEY))

    def begin(self, name: str, target: Sequence[str], parts_of: PartsOf) -> GroupState:
        """Take the list of the settings, and give the outbox to the owners of that list.

        Raises:
            StartupError: this queue belongs to a member of another name, or to none of the list.
        """

        def work(connection: sqlite3.Connection) -> GroupState:
            state = _read(connection)
            if state.name not in ("", name):
                raise StartupError(
                    f"this data directory belongs to member {state.name!r}, not {name!r}",
                    hint="set TRACEREEL_NAME to it, or start in an empty data directory",
                )
            if name not in (*target, *state.known):
                raise StartupError(
                    f"TRACEREEL_NAME={name!r}: expected one of {', '.join(target)}, the names in"
                    " TRACEREEL_PEERS",
                )
            if state.target != tuple(target):
                # With this ledger, others may own their share of a list that was tried.
                tried = state.target if state.sent else ()
                known = tuple(sorted({*state.known, *tried}))
                state = GroupState(name=name, known=known, ids=state.ids, target=tuple(target))
                relays.reroute(connection, parts_of)
                _write(connection, state)
            return state

        state: GroupState = self.writer.submit(work).result()
        return state

    def pages_for(self, member: str, owner_of: Callable[[str, str], str]) -> Iterable[LedgerPage]:
        """Yield this ledger's part that a member owns now; the last page says so."""
        state, now = self.state(), self.steady()
        head: dict[str, Any] = {
            "sender": state.name,
            "queue_id": self.queue_id,
            "known": state.known,
            "taker_id": state.ids.get(member, ""),
        }
        last = ("", "")
        while rows := self.reader.rows(
            "SELECT tenant, emitter_id, seen, last_unix_nano FROM emitters"
            " WHERE (tenant, emitter_id) > (?, ?) ORDER BY tenant, emitter_id LIMIT ?",
            *(*last, PAGE),
        ):
            last = (rows[-1][0], rows[-1][1])
            theirs = tuple(
                (tenant, emitter, seen, max(0, now - at))
                for tenant, emitter, seen, at in rows
                if owner_of(tenant, emitter) == member
            )
            if theirs:
                yield LedgerPage(**head, emitters=theirs)
        since, newest = now - DIGEST_SECONDS * 1_000_000_000, b""
        while rows := self.reader.rows(
            "SELECT digest, received_unix_nano FROM digests"
            " WHERE digest > ? AND received_unix_nano > ? ORDER BY digest LIMIT ?",
            *(newest, since, PAGE),
        ):
            newest = rows[-1][0]
            yield LedgerPage(
                **head, digests=tuple((digest.hex(), max(0, now - at)) for digest, at in rows)
            )
        yield LedgerPage(**head, is_last=True)

    def take(self, page: LedgerPage) -> None:
        """Add a part of another ledger; after the last, its sender has handed over."""

        def work(connection: sqlite3.Connection) -> None:
            now = self.steady()
            for tenant, emitter, seen, age in page.emitters:
                self.appender.add_seen(connection, tenant, emitter, seen, at=now - age)
            connection.executemany(
                "INSERT OR IGNORE INTO digests VALUES (?, ?)",
                [(bytes.fromhex(digest), now - age) for digest, age in page.digests],
            )
            if page.is_last:
                state = _read(connection)
                is_other = page.taker_id not in ("", self.queue_id)
                after = msgspec.structs.replace(
                    state,
                    got={**state.got, page.sender: page.known},
                    heard={**state.heard, page.sender: page.queue_id},
                    was_replaced=state.was_replaced or (is_other and not state.known),
                )
                _write(connection, after)

        self.writer.submit(work).result()

    def note_sent(self) -> None:
        """Remember that this ledger is being handed to a member for the list of the settings."""

        def work(connection: sqlite3.Connection) -> None:
            state = _read(connection)
            if not state.sent:
                _write(connection, msgspec.structs.replace(state, sent=True))

        self.writer.submit(work).result()

    def seed(self, numbers: Sequence[tuple[str, str, str]]) -> None:
        """Add numbers that are in the store: tenant, emitter and intervals."""

        def work(connection: sqlite3.Connection) -> None:
            for tenant, emitter, seen in numbers:
                self.appender.add_seen(connection, tenant, emitter, seen, at=self.steady())

        self.writer.submit(work).result()

    def activate(self, *, seeded: bool) -> None:
        """Own a share of the emitters from now on."""

        def work(connection: sqlite3.Connection) -> None:
            state = _read(connection)
            owner = msgspec.structs.replace(
                state, known=state.target, ids=state.heard, owns=True, seeded=seeded
            )
            _write(connection, owner)

        self.writer.submit(work).result()


def _read(connection: sqlite3.Connection) -> GroupState:
    return _state(connection.execute("SELECT value FROM meta WHERE key=?", (_KEY,)).fetchall())


def _state(rows: Sequence[tuple[str]]) -> GroupState:
    return _STATE.decode(rows[0][0]) if rows else GroupState()


def _write(connection: sqlite3.Connection, state: GroupState) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO meta VALUES (?, ?)", (_KEY, msgspec.json.encode(state).decode())
    )
