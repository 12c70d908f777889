"""`/v1/quarantine`: records that the store refused; list, show, retry or drop them."""

import asyncio
import base64
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import ServiceUnavailableError, UnknownResourceError
from tracereel_collector.group.members import Group
from tracereel_collector.http.dependencies import Parts, caller_of, parts_of
from tracereel_collector.http.peer_router import PREFIX, named
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.model import QuarantineEntry

router = ScopedRouter(KeyScope.READ)
MAX_LISTED = 1_000
SLOTS = 64
"""Ids of a group's entries end in the place of their member, so that they are unique."""
PEER_PATH = f"{PREFIX}/quarantine"
Verb = Literal["show", "retry", "drop"]
EntryId = Annotated[int, Path(ge=1, lt=2**62)]


@router.get("/v1/quarantine", summary="List quarantined records")
async def list_entries(
    request: Request,
    before: Annotated[int | None, Query(ge=1, lt=2**62)] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
) -> dict[str, Any]:
    """List quarantined records, newest first; pass `next` as `?before=` for the next page.

    In a group of collectors, those of all members; `not_reached` names members that do not answer.
    """
    parts, tenant = parts_of(request), caller_of(request).tenant
    found = await asyncio.to_thread(entries_here, parts, tenant, before, limit)
    missing: list[str] = []
    if parts.peers is not None:
        wanted = {"tenant": tenant, "before": before, "limit": limit}
        ask = partial(parts.peers.ask_all, "POST", f"{PEER_PATH}/list", wanted)
        for answer in await asyncio.to_thread(ask):
            if answer.failure:
                missing.append(answer.member)
            else:
                found += answer.document["entries"]
        found = sorted(found, key=lambda each: each["id"], reverse=True)[:limit]
    following = found[-1]["id"] if len(found) == limit else None
    return {"entries": found, "next": following, **named(missing)}


@router.get("/v1/quarantine/{entry_id}", summary="Show a quarantined record")
async def show_entry(request: Request, entry_id: EntryId) -> dict[str, Any]:
    """Return the record with its data, as text if it is UTF-8, else as base64."""
    return await _do(request, entry_id, "show")


@router.post(
    "/v1/quarantine/{entry_id}/retry",
    scope=KeyScope.ADMIN,
    summary="Deliver a quarantined record again",
)
async def retry_entry(request: Request, entry_id: EntryId) -> dict[str, Any]:
    """Deliver a record again with its sequence number and arrival time.

    If the store refuses it again, it returns to the quarantine.
    """
    return await _do(request, entry_id, "retry")


@router.delete(
    "/v1/quarantine/{entry_id}", scope=KeyScope.ADMIN, summary="Drop a quarantined record"
)
async def drop_entry(request: Request, entry_id: EntryId) -> dict[str, Any]:
    """Delete a record permanently; it stays in the counters."""
    return await _do(request, entry_id, "drop")


async def _do(request: Request, entry_id: int, what: Verb) -> dict[str, Any]:
    """Show, retry or drop an entry, here or at the member that has it."""
    parts, caller = parts_of(request), caller_of(request)
    place = entry_id % SLOTS
    group = None if parts.peers is None else parts.peers.group
    if parts.peers is None or group is None or place == _place(group):
        return await asyncio.to_thread(
            act_here, parts, caller.tenant, entry_id, what, by=caller.name
        )
    member = next((each for at, each in enumerate(group.members) if at == place), None)
    if member is None:
        raise _unknown(entry_id)
    wanted = {"tenant": caller.tenant, "entry_id": entry_id, "by": caller.name}
    ask = partial(parts.peers.ask, member, "POST", f"{PEER_PATH}/{what}", wanted)
    answer = await asyncio.to_thread(ask)
    if answer.status == UnknownResourceError.status:
        raise _unknown(entry_id)
    if answer.failure:
        raise ServiceUnavailableError(f"member {member.name}, which has it: {answer.failure}")
    document: dict[str, Any] = answer.document
    return document


def _place(group: Group) -> int:
    """Return the place of this member in the list, which is part of the ids of its entries."""
    return group.names.index(group.name) if group.name in group.names else SLOTS - 1


def entries_here(parts: Parts, tenant: str, before: int | None, limit: int) -> list[dict[str, Any]]:
    """Return the entries of this collector, newest first; their ids are unique in the group."""
    group = None if parts.peers is None else parts.peers.group
    if before is not None and group is not None:
        before = (before - _place(group) + SLOTS - 1) // SLOTS
    found = parts.queue.quarantine.entries(tenant=tenant, before=before, limit=limit)
    return [_shown(each, group) for each in found]


def act_here(parts: Parts, tenant: str, entry_id: int, what: Verb, *, by: str) -> dict[str, Any]:
    """Show an entry of this collector, or write the audit record and retry or drop it."""
    group = None if parts.peers is None else parts.peers.group
    local_id = entry_id if group is None else entry_id // SLOTS
    entry = parts.queue.quarantine.entry(local_id, tenant=tenant)
    if entry is None:
        raise _unknown(entry_id)
    if what == "show":
        return _shown(entry, group)
    is_retry = what == "retry"
    parts.gate.audit.act(
        "quarantine.retried" if is_retry else "quarantine.dropped",
        tenant=tenant,
        by=by,
        entry=entry_id,
        kind=entry.kind,
        records=entry.records,
        bytes=entry.size,
    )
    act = parts.queue.quarantine.retry if is_retry else parts.queue.quarantine.drop
    if not act(local_id, tenant=tenant):
        raise _unknown(entry_id)  # a concurrent request was faster
    return {"id": entry_id, "status": "queued" if is_retry else "dropped"}


def _unknown(entry_id: int) -> UnknownResourceError:
    """Return the error for an entry that is missing or belongs to another tenant."""
    return UnknownResourceError(
        f"there is no quarantined record {entry_id}", hint="see GET /v1/quarantine"
    )


def _shown(entry: QuarantineEntry, group: Group | None) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": entry.id if group is None else entry.id * SLOTS + _place(group),
        "kind": entry.kind,
        "sequence_number": entry.sequence_number,
        "records": entry.records,
        "bytes": entry.size,
        "reason": entry.reason,
        "received": _time(entry.received_unix_nano),
        "quarantined": _time(entry.quarantined_unix_nano),
    }
    if entry.data is not None:
        try:
            shown["data"] = entry.data.decode()
        except UnicodeDecodeError:
            shown["data_base64"] = base64.b64encode(entry.data).decode()
    return shown


def _time(unix_nano: int) -> str | None:
    if not unix_nano:
        return None
    return datetime.fromtimestamp(unix_nano / 1e9, UTC).isoformat().replace("+00:00", "Z")
