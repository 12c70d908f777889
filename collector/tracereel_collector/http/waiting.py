"""Waiting until acknowledged records are in the store, here or at the members that own them."""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial

from tracereel_collector.group.peers import PeerClient
from tracereel_collector.http.dependencies import Parts
from tracereel_collector.model import Kind, Receipt, RelayReceipt

MARGIN_SECONDS = 2.0
"""Added to the time limit of a question to a peer, which answers by itself when its time is over."""


async def is_stored(
    parts: Parts, receipt: Receipt, seconds: float, *, kind: Kind = Kind.EVENTS
) -> bool:
    """Return whether the received records are in the store before the timeout."""
    # A duplicate was acknowledged before, so it is in the newest body or an older one.
    body_id = receipt.body_id or parts.queue.newest_body(kind)
    if body_id is None or not receipt.appended + receipt.duplicates:
        return True
    parts.queue.hurry(kind)
    return await parts.delivered.wait_until(
        lambda: parts.queue.is_delivered(kind, body_id), timeout=seconds
    )


async def await_all(
    parts: Parts, receipt: Receipt, seconds: float, *, kind: Kind = Kind.EVENTS
) -> tuple[bool, Receipt]:
    """Wait here and at the owners of relayed records; return whether all are stored in time.

    The returned receipt has the numbers of the owner if one member owns all records.
    """
    if not receipt.relayed or parts.peers is None:
        return await is_stored(parts, receipt, seconds, kind=kind), receipt
    deadline = time.monotonic() + seconds
    waiting: list[Awaitable[tuple[bool, RelayReceipt | None]]] = [
        _await_owner(parts, parts.peers, owner, relay_id, kind, deadline)
        for owner, relay_id in receipt.relayed
    ]
    stored = True
    if receipt.body_id is not None:
        stored = await is_stored(parts, receipt, seconds, kind=kind)
    found = await asyncio.gather(*waiting)
    answered = [given for _, given in found if given is not None]
    if len(answered) == len(found):
        receipt = replace(
            receipt,
            appended=receipt.appended - sum(each.duplicates + each.refused for each in answered),
            duplicates=receipt.duplicates + sum(each.duplicates for each in answered),
            refused=receipt.refused + sum(each.refused for each in answered),
        )
        if len(found) == 1 and receipt.body_id is None:
            number = answered[0].first_sequence_number
            receipt = replace(receipt, first_sequence_number=number)
    return stored and all(at_owner for at_owner, _ in found), receipt


async def _await_owner(
    parts: Parts, peers: PeerClient, owner: str, relay_id: int, kind: Kind, deadline: float
) -> tuple[bool, RelayReceipt | None]:
    outbox = parts.queue.outbox
    if not await parts.delivered.wait_until(
        lambda: not outbox.is_waiting(relay_id), timeout=max(0.0, deadline - time.monotonic())
    ):
        return False, None
    given = await asyncio.to_thread(outbox.receipt, relay_id)
    peer = next(each for each in peers.group.members if each.name == owner)
    left = max(0.0, deadline - time.monotonic())
    body = {
        "kind": kind,
        # Without a receipt, all of it counts as a duplicate: it is in some body of the owner.
        "records": given.appended + given.duplicates if given else 1,
        "body_id": given.body_id if given else None,
        "seconds": left,
    }
    ask = partial(peers.ask, peer, "POST", "/v1/group/stored", body, seconds=left + MARGIN_SECONDS)
    answer = await asyncio.to_thread(ask)
    return not answer.failure and answer.document == {"stored": True}, given
