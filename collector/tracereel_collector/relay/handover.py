"""Change of the list of members: ledgers go to the new owners, then each member becomes active."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from tracereel._export.http_client import HTTP_ERRORS
from tracereel_collector.errors import CollectorError, ServiceUnavailableError, StartupError
from tracereel_collector.group.members import Group, Member
from tracereel_collector.group.ownership import Ownership
from tracereel_collector.group.peers import PeerClient, answer_of, connect, no_answer
from tracereel_collector.model import Body
from tracereel_collector.queue import DurableQueue

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 1.0
SEND_SECONDS: Final = 30.0
PATH: Final = "/v1/group/ledger"

Numbers = Callable[[str, str], list[tuple[str, str, str]]]
"""Returns a page of the numbers in the store after a tenant and emitter; empty at the end."""


class HandOver:
    """Hands this ledger to members that wait for it, and becomes active when all have done so."""

    def __init__(
        self,
        queue: DurableQueue,
        peers: PeerClient,
        numbers: Numbers,
        *,
        on_active: Callable[[], None],
    ) -> None:
        self._membership = queue.membership
        self._peers = peers
        self._group = peers.group
        self._numbers = numbers
        self._on_active = on_active
        self._ownership = Ownership(self._group.names)

    def begin(self) -> None:
        """Take the list of the settings.

        Raises:
            StartupError: this data directory is another member's, or the group has replaced it.
        """
        group = self._group
        self._membership.begin(group.name, group.names, self._ownership.parts_of)
        for name, hello in self._hellos().items():
            if group.name in hello.get("lost", ()) and group.name not in group.lost:
                raise StartupError(
                    f"member {name} says that this member is lost: its emitters have new owners",
                    hint="start it in an empty data directory under a new name; what is only here"
                    " would be stored twice",
                )

    def look(self) -> None:
        """Hand over to the peers that wait for this ledger; become active if possible."""
        group = self._group
        for name, hello in self._hellos().items():
            waits = hello.get("list") == group.digest and not hello.get("active")
            if waits and group.name not in hello.get("got", ()):
                peer = next(each for each in group.peers if each.name == name)
                self._send(peer)
        state = self._membership.state()
        if state.is_active or group.name not in group.names or state.missing(group.lost):
            return
        if state.needs_seed(group.lost):
            if state.was_replaced and group.name not in group.lost:
                log.error("member_without_its_ledger", advice=_REPLACED.format(group.name))
                return
            self._seed()
        self._membership.activate(seeded=True)
        log.info("member_is_active", member=group.name, members=list(group.names))
        self._on_active()

    def _hellos(self) -> dict[str, dict[str, Any]]:
        answers = self._peers.ask_all("GET", "/v1/group/hello", seconds=2.0)
        return {
            answer.member: answer.document
            for answer in answers
            if not answer.failure and isinstance(answer.document, dict)
        }

    def _send(self, peer: Member) -> None:
        connection = connect(self._group, peer, seconds=SEND_SECONDS)
        try:
            self._membership.note_sent()
            for page in self._membership.pages_for(peer.name, self._ownership.of_emitter):
                response = connection.request("POST", PATH, msgspec.json.encode(page))
                if failure := answer_of(peer, response).failure:
                    raise ServiceUnavailableError(failure)
        except HTTP_ERRORS as error:
            # The others must not wait for this one, which is tried again at the next look.
            log.warning(
                "ledger_not_handed_over", to=peer.name, reason=no_answer(peer, error).failure
            )
        except CollectorError as error:
            log.warning("ledger_not_handed_over", to=peer.name, reason=error.message)
        finally:
            connection.close()

    def _seed(self) -> None:
        """Add the numbers in the store, in place of a lost ledger."""
        last = ("", "")
        while page := self._numbers(*last):
            last = (page[-1][0], page[-1][1])
            own = [row for row in page if self._ownership.of_emitter(*row[:2]) == self._group.name]
            self._membership.seed(own)


_REPLACED: Final = (
    "the others know member {0} from before, but this data directory is new: start it in the old one,"
    " or with TRACEREEL_LOST_PEERS={0} if that is lost"
)


class Owners:
    """Parts of a body by owner; the own share too goes through the outbox until it is active."""

    def __init__(self, queue: DurableQueue, group: Group) -> None:
        self._queue = queue
        self._name = group.name
        self._parts_of = Ownership(group.names).parts_of
        self._is_active = False

    def is_active(self) -> bool:
        """Return whether this member owns its share; once it does, until the next start."""
        if not self._is_active:
            self._is_active = self._queue.membership.state().is_active
        return self._is_active

    def __call__(self, body: Body) -> list[tuple[str | None, Body]]:
        """Return the parts of a body; None is the own queue."""
        own = self._name if self.is_active() else None
        return [(None if owner == own else owner, part) for owner, part in self._parts_of(body)]
