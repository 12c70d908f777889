"""Routes of Langfuse's clients: spans, the check of their credentials, and scores.

The secret key is an API key of ours; the public key may be anything. See docs/start/langfuse.md.
"""

from typing import Any

import msgspec
from fastapi import Request
from fastapi.responses import JSONResponse, Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import BadRequestError
from tracereel_collector.http.dependencies import body_of, caller_of, parts_of
from tracereel_collector.http.otlp import receive_otlp
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.ingest.otlp_schema import TRACES
from tracereel_collector.ingest.scores import of_langfuse

router = ScopedRouter(KeyScope.WRITE)
MAX_ERRORS = 20
"""Reasons for refused scores in one answer."""


@router.post("/api/public/otel/v1/traces", summary="Receive the spans of Langfuse's clients")
async def post_langfuse_traces(request: Request) -> Response:
    """Store OTLP spans; the same as `POST /v1/traces`."""
    return await receive_otlp(TRACES, request)


@router.get("/api/public/projects", summary="Check the credentials of Langfuse's clients")
async def get_langfuse_projects(request: Request) -> Response:
    """Return the key's tenant as the only project, which `auth_check` asks for."""
    tenant = caller_of(request).tenant
    project = {
        "id": tenant,
        "name": tenant,
        "organization": {"id": tenant, "name": tenant},
        "metadata": {},
    }
    return JSONResponse({"data": [project]})


@router.post("/api/public/scores", summary="Record scores of Langfuse's clients")
async def post_langfuse_scores(request: Request) -> Response:
    """Record one score or an array of them; 207 names how many were refused, and why."""
    parts, caller = parts_of(request), caller_of(request)
    async with body_of(request) as data:
        parts.gate.charge(caller, size=len(data))
        try:
            accepted, ids = await parts.accept.scores(of_langfuse(data), tenant=caller.tenant)
        except BadRequestError as error:
            if is_array(data):  # clients send a batch again unless it is answered
                return _partly(0, 1, [error.message])
            raise
    parts.gate.charge(caller, records=len(ids) + accepted.refused)
    if accepted.refused:
        reasons = [each.reason for each in accepted.rejected]
        return _partly(len(ids), accepted.refused, reasons)
    if is_array(data):
        return JSONResponse({"message": "Accepted"}, status_code=202)
    return JSONResponse({"id": ids[0]})


def is_array(data: bytes) -> bool:
    """Return whether a body is a batch of scores."""
    return data.lstrip()[:1] == b"["


def _partly(accepted: int, refused: int, reasons: list[str]) -> Response:
    errors: list[dict[str, Any]] = [{"message": each} for each in reasons[:MAX_ERRORS]]
    answer = {"accepted": accepted, "rejected": refused, "errors": errors}
    return Response(msgspec.json.encode(answer), status_code=207, media_type="application/json")
