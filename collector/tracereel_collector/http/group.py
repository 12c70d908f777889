"""`/v1/group/…`: requests between the members of a group of collectors."""

import asyncio
import json
from typing import Any, Literal

import msgspec
from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel, Field, ValidationError

from tracereel_collector.auth.replicas import AccessReplicas
from tracereel_collector.deliver.deletion_queues import OWN
from tracereel_collector.errors import BadRequestError, ServiceUnavailableError
from tracereel_collector.group.members import SENDER_HEADER
from tracereel_collector.http.dependencies import parts_of
from tracereel_collector.http.parameters import MAX_WAIT_SECONDS, Model
from tracereel_collector.http.peer_router import PeerRouter, group_of, peer_body
from tracereel_collector.http.quarantine import MAX_LISTED, act_here, entries_here
from tracereel_collector.http.tail import watch_for_peer
from tracereel_collector.http.waiting import is_stored
from tracereel_collector.live.filters import TailFilter
from tracereel_collector.model import Kind, Marks, Receipt
from tracereel_collector.queue.membership import PAGES
from tracereel_collector.relay.wire import SOURCE_HEADER, decode, receipts_of

MAX_SOURCE = 100
router = PeerRouter()


class DeletionPart(BaseModel):
    """Deletion to make, and the members' positions that `settle` returned."""

    tenant: str
    marks: list[tuple[Literal["traces", "users", "otel"], str]]
    positions: dict[str, int] = {}

    def as_marks(self) -> Marks:
        """Return the marks grouped by field."""
        found: dict[str, list[str]] = {}
        for what, name in self.marks:
            found.setdefault(what, []).append(name)
        return Marks.of(found)


class TailQuestion(BaseModel):
    """Live records that a reader of another member wants."""

    tenant: str
    wanted: dict[str, Any]
    after: int | None = None


class QuarantineQuestion(BaseModel):
    """Page or entry of a tenant's quarantine."""

    tenant: str
    before: int | None = None
    limit: int = Field(100, ge=1, le=MAX_LISTED)
    entry_id: int = 0
    by: str = ""


class Awaited(BaseModel):
    """Relayed records that a request waits for."""

    kind: Kind
    records: int = Field(ge=0)
    body_id: int | None = None
    seconds: float = Field(ge=0, le=MAX_WAIT_SECONDS)


@router.get("/hello", any_list=True)
async def hello(request: Request) -> dict[str, Any]:
    """Return the name and state of this member and the digest of its list of members."""
    group = group_of(request)
    state = await asyncio.to_thread(parts_of(request).queue.membership.state)
    return {
        "active": state.is_active,
        "got": sorted(state.got),
        "lost": sorted(group.lost),
        "name": group.name,
        "list": group.digest,
        "members": group.names,
        "version": parts_of(request).version,
        "keys": await asyncio.to_thread(_replicas(request).digest),
    }


@router.get("/keys")
async def get_keys(request: Request) -> dict[str, Any]:
    """Return all keys of this member, without secrets."""
    return await asyncio.to_thread(_replicas(request).keys)


@router.post("/keys")
async def take_keys(request: Request) -> dict[str, Any]:
    """Take keys that were created or revoked at another member."""
    async with peer_body(request) as data:
        document = _json(data)
    by = request.headers.get(SENDER_HEADER, "")
    await asyncio.to_thread(lambda: _replicas(request).take_keys(document, by=by))
    return {}


@router.post("/sessions")
async def take_session(request: Request) -> dict[str, Any]:
    """Take a login session that began or ended at another member."""
    async with peer_body(request) as data:
        document = _json(data)
    await asyncio.to_thread(_replicas(request).take_session, document)
    return {}


@router.post("/deletion/{what}")
async def delete_here(
    request: Request, what: Literal["settle", "purge", "known"]
) -> dict[str, Any]:
    """Do this member's part of a deletion."""
    parts = parts_of(request)
    async with peer_body(request) as data:
        part = _parsed(DeletionPart, data)
    own, tenant, marks = parts.own_queue, part.tenant, part.as_marks()
    if what == "settle":
        positions = await asyncio.to_thread(own.settle, tenant, marks)
        return {"up_to": positions[OWN]}
    if what == "purge":
        here = {OWN: part.positions[group_of(request).name]}
        return {"quarantined": await asyncio.to_thread(own.purge, tenant, marks, here)}
    return {"known": await asyncio.to_thread(own.is_known, tenant, marks)}


@router.post("/tail")
async def tail_here(request: Request) -> Response:
    """Stream this member's records for a reader of another one."""
    async with peer_body(request) as data:
        asked = _parsed(TailQuestion, data)
    return await watch_for_peer(
        parts_of(request), asked.tenant, TailFilter(**asked.wanted), asked.after
    )


@router.post("/quarantine/{what}")
async def quarantine_here(
    request: Request, what: Literal["list", "show", "retry", "drop"]
) -> dict[str, Any]:
    """List this member's quarantined records, or show, retry or drop one."""
    parts = parts_of(request)
    async with peer_body(request) as data:
        wanted = _parsed(QuarantineQuestion, data)
    if what == "list":
        given = (wanted.tenant, wanted.before, wanted.limit)
        return {"entries": await asyncio.to_thread(entries_here, parts, *given)}
    return await asyncio.to_thread(
        act_here, parts, wanted.tenant, wanted.entry_id, what, by=wanted.by
    )


def _replicas(request: Request) -> AccessReplicas:
    replicas = parts_of(request).replicas
    assert replicas is not None  # noqa: S101 - these routes exist only in a group
    return replicas


def _parsed(model: type[Model], data: bytes) -> Model:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise BadRequestError(f"not a question of this version: {error.errors()[0]}") from error


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error


@router.post("/relay")
async def take_relays(request: Request) -> Response:
    """Take bodies that another member has acknowledged; answer with a receipt for each."""
    parts, source = parts_of(request), request.headers.get(SOURCE_HEADER, "")
    if parts.owners is None or not await asyncio.to_thread(parts.owners.is_active):
        raise ServiceUnavailableError("this member waits for the ledgers of others")
    if not 0 < len(source) <= MAX_SOURCE:
        raise BadRequestError(f"{SOURCE_HEADER}: expected the id of the sender's queue")
    async with peer_body(request) as data:
        taken = decode(data)
        receipts = await parts.accept.relayed(source, taken)
    return Response(receipts_of(receipts), media_type="application/json")


@router.post("/ledger")
async def take_ledger(request: Request) -> dict[str, Any]:
    """Take a part of the ledger of a member that owned emitters of this one."""
    async with peer_body(request) as data:
        try:
            page = PAGES.decode(data)
        except msgspec.DecodeError as error:
            raise BadRequestError(f"not a part of a ledger: {error}") from error
    await asyncio.to_thread(parts_of(request).queue.membership.take, page)
    return {}


@router.post("/stored")
async def await_stored(request: Request) -> dict[str, bool]:
    """Wait until records that were relayed to this member are in the store."""
    async with peer_body(request) as data:
        awaited = _parsed(Awaited, data)
    receipt = Receipt(
        appended=awaited.records, duplicates=0, first_sequence_number=None, body_id=awaited.body_id
    )
    stored = await is_stored(parts_of(request), receipt, awaited.seconds, kind=awaited.kind)
    return {"stored": stored}
