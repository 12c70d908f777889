"""`POST /v1/events` and `/v1/heartbeats`: acknowledged when durable."""

from typing import Any
from urllib.parse import quote

import msgspec
from fastapi import Request
from fastapi.responses import JSONResponse, Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.dependencies import Parts, body_of, caller_of, parts_of
from tracereel_collector.http.parameters import WAIT_SECONDS, Timeout, Wait
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.ingest.accept import EveryEventRejectedError
from tracereel_collector.model import Kind, Receipt

router = ScopedRouter(KeyScope.WRITE)
TENANT_HEADER = "x-tracereel-tenant"
_EVENT = {
    "type": "object",
    "required": ["event_id", "event_type", "timestamp", "trace_id"],
    "properties": {
        name: {"type": "string"} for name in ("event_id", "event_type", "timestamp", "trace_id")
    },
    "description": "An event of docs/events.schema.json.",
}
_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"anyOf": [_EVENT, {"type": "array", "items": _EVENT}]}},
        "application/x-ndjson": {"schema": {"type": "string"}},
    },
}
_HEARTBEATS = {
    "required": True,
    "content": {"application/json": {"schema": {"anyOf": [{"type": "object"}, {"type": "array"}]}}},
}


@router.post("/v1/events", summary="Record events", openapi_extra={"requestBody": _BODY})
async def post_events(
    request: Request,
    wait: Wait = None,
    timeout: Timeout = WAIT_SECONDS,  # noqa: ASYNC109 - part of the API
) -> Response:
    """Record events; accepted ones are durable and numbered from `first_sequence_number`.

    With `wait=stored` the response is sent when the events can be queried: 200 and `stored`. If the
    timeout expires first, it is 202 and `queued`; the events are still delivered.
    """
    parts, caller = parts_of(request), caller_of(request)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    async with body_of(request) as data:
        parts.gate.charge(caller, size=len(data))
        try:
            accepted = await parts.accept.events(
                data, tenant=caller.tenant, content_type=content_type
            )
        except EveryEventRejectedError as error:
            parts.gate.charge(caller, records=error.refused)
            raise
    records = accepted.receipt.appended + accepted.receipt.duplicates + accepted.refused
    parts.gate.charge(caller, records=records)
    stored = await is_stored(parts, accepted.receipt, timeout) if wait == "stored" else None
    answer: dict[str, Any] = {
        "accepted": accepted.receipt.appended,
        "first_sequence_number": accepted.receipt.first_sequence_number,
        "rejected": [each.as_dict() for each in accepted.rejected],
        "duplicates": accepted.receipt.duplicates,
    }
    if accepted.refused > len(accepted.rejected):
        answer["rejected_count"] = accepted.refused
    if stored is not None:
        answer["status"] = "stored" if stored else "queued"
    return Response(
        msgspec.json.encode(answer),
        status_code=202 if stored is False else 200,
        media_type="application/json",
        # Lets senders detect whether a rotated key has the same tenant; see `GET /v1/identity`.
        headers={TENANT_HEADER: quote(caller.tenant)},
    )


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


@router.post(
    "/v1/heartbeats",
    summary="Say how far an emitter has come",
    openapi_extra={"requestBody": _HEARTBEATS},
)
async def post_heartbeats(request: Request) -> JSONResponse:
    """Record one heartbeat or an array of them; durable when acknowledged."""
    parts, caller = parts_of(request), caller_of(request)
    async with body_of(request) as data:
        parts.gate.charge(caller, size=len(data))
        accepted = await parts.accept.heartbeats(data, tenant=caller.tenant)
    rejected = [
        {"index": each.index, "emitter_id": each.event_id, "reason": each.reason}
        for each in accepted.rejected
    ]
    return JSONResponse({"accepted": accepted.receipt.appended, "rejected": rejected})
