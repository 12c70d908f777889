"""`POST /v1/events` and `/v1/heartbeats`: acknowledged when durable."""

from typing import Any
from urllib.parse import quote

import msgspec
from fastapi import Request
from fastapi.responses import JSONResponse, Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.dependencies import body_of, caller_of, parts_of
from tracereel_collector.http.parameters import WAIT_SECONDS, Timeout, Wait
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.http.waiting import await_all
from tracereel_collector.ingest.accept import EveryEventRejectedError

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
    timeout expires first, it is 202 and `queued`; the events are still delivered. In a group of
    collectors, events that another member owns have a number only with `wait=stored`.
    """
    parts, caller = parts_of(request), caller_of(request)
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    async with body_of(request) as data:
        parts.gate.charge(caller, size=len(data))
        try:
            accepted = await parts.accept.events(
                data,
                tenant=caller.tenant,
                content_type=content_type,
                is_awaited=wait == "stored",
            )
        except EveryEventRejectedError as error:
            parts.gate.charge(caller, records=error.refused)
            raise
    records = accepted.receipt.appended + accepted.receipt.duplicates + accepted.refused
    parts.gate.charge(caller, records=records)
    receipt, stored = accepted.receipt, None
    if wait == "stored":
        stored, receipt = await await_all(parts, receipt, timeout)
    refused = accepted.refused + receipt.refused - accepted.receipt.refused
    answer: dict[str, Any] = {
        "accepted": receipt.appended,
        "first_sequence_number": receipt.first_sequence_number,
        "rejected": [each.as_dict() for each in accepted.rejected],
        "duplicates": receipt.duplicates,
    }
    if refused > len(accepted.rejected):
        answer["rejected_count"] = refused
    if stored is not None:
        answer["status"] = "stored" if stored else "queued"
    return Response(
        msgspec.json.encode(answer),
        status_code=202 if stored is False else 200,
        media_type="application/json",
        # Lets senders detect whether a rotated key has the same tenant; see `GET /v1/identity`.
        headers={TENANT_HEADER: quote(caller.tenant)},
    )


@router.post(
    "/v1/heartbeats",
    summary="Report how many events an emitter has recorded",
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
