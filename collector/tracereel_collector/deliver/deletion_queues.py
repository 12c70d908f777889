"""Deletion from the queue of a collector, and from those of all members of a group."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tracereel_collector.errors import ServiceUnavailableError, StoreUnavailableError
from tracereel_collector.group.peers import PeerAnswer, PeerClient
from tracereel_collector.model import Kind, Marks
from tracereel_collector.queue import DurableQueue

WAIT_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.05
MARGIN_SECONDS: Final = 5.0
PATH: Final = "/v1/group/deletion"
OWN: Final = ""
"""Name of this collector among the positions."""

Positions = Mapping[str, int]
"""Id of the newest body of each collector when late records began to be rejected."""


class DeletionQueues(Protocol):
    """Queues that a deletion has to clear."""

    def settle(self, tenant: str, marks: Marks) -> Positions:
        """Reject late records and wait until earlier bodies are stored.

        Raises:
            ServiceUnavailableError: they could not be delivered in time, or a member does not answer.
        """
        ...

    def purge(self, tenant: str, marks: Marks, positions: Positions) -> int:
        """Remove deleted data; return the number of records removed from quarantine."""
        ...

    def is_known(self, tenant: str, marks: Marks) -> bool:
        """Return whether deleted data was marked before or is in a queue."""
        ...


@dataclass(frozen=True, slots=True)
class OwnQueue:
    """The queue of this collector."""

    queue: DurableQueue
    wait_seconds: float = WAIT_SECONDS

    def settle(self, tenant: str, marks: Marks) -> Positions:
        """Reject late records and wait until earlier bodies are relayed and stored."""
        up_to = self.queue.erasure.mark_deleted(tenant, marks)
        relays = self.queue.outbox.newest()
        for kind in Kind:
            self.queue.hurry(kind)
        deadline = time.monotonic() + self.wait_seconds
        while self.queue.erasure.undelivered(tenant, up_to=up_to) or self.queue.outbox.waiting_of(
            tenant, up_to=relays
        ):
            if time.monotonic() > deadline:
                raise StoreUnavailableError(
                    "what waits in the queue could not be delivered in time; nothing more of it is"
                    " taken, but it is not deleted yet",
                    hint="ask again when GET /readyz/query says that the store answers",
                )
            time.sleep(LOOK_SECONDS)
        return {OWN: up_to}

    def purge(self, tenant: str, marks: Marks, positions: Positions) -> int:
        """Remove deleted data from this queue."""
        return self.queue.erasure.purge(tenant, marks, up_to=positions[OWN])

    def is_known(self, tenant: str, marks: Marks) -> bool:
        """Return whether deleted data was marked before or is in this queue."""
        own = Marks(traces=marks.traces, users=marks.users)
        return self.queue.erasure.is_marked(tenant, own) or self.queue.erasure.mentions(
            tenant, marks
        )


@dataclass(frozen=True, slots=True)
class GroupQueues:
    """The queues of all members: late data is rejected and pending data settled at each of them."""

    own: OwnQueue
    peers: PeerClient

    def settle(self, tenant: str, marks: Marks) -> Positions:
        """Settle all members; a relay on its way is either stored before the mark or rejected."""
        # Peers first, so that all have begun when the own queue waits for its relays.
        answers = self._ask("settle", tenant, marks)
        positions = {answer.member: int(answer.document["up_to"]) for answer in answers}
        return {**positions, **self.own.settle(tenant, marks)}

    def purge(self, tenant: str, marks: Marks, positions: Positions) -> int:
        """Remove deleted data from all queues."""
        removed = self.own.purge(tenant, marks, positions)
        answers = self._ask("purge", tenant, marks, positions=dict(positions))
        return removed + sum(int(answer.document["quarantined"]) for answer in answers)

    def is_known(self, tenant: str, marks: Marks) -> bool:
        """Return whether it is known to any member."""
        return self.own.is_known(tenant, marks) or any(
            answer.document["known"] for answer in self._ask("known", tenant, marks)
        )

    def _ask(self, what: str, tenant: str, marks: Marks, **more: Any) -> list[PeerAnswer]:
        document = {"tenant": tenant, "marks": marks.pairs(), **more}
        seconds = self.own.wait_seconds + MARGIN_SECONDS
        answers = self.peers.ask_all("POST", f"{PATH}/{what}", document, seconds=seconds)
        if missing := [answer for answer in answers if answer.failure]:
            raise ServiceUnavailableError(
                f"{_listed(missing)}; it is not deleted yet",
                hint="ask again when all members answer; GET /readyz names them",
            )
        return answers


def _listed(missing: Iterable[PeerAnswer]) -> str:
    return "; ".join(f"member {each.member}: {each.failure}" for each in missing)
