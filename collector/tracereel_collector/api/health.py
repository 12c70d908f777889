"""`/healthz`, `/readyz`, `/readyz/query`, `/metrics`: what operators and probes look at."""

import asyncio
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tracereel_collector.api.parts import parts_of
from tracereel_collector.api.surface import Surface
from tracereel_collector.auth import Scope

router = Surface(scope=Scope.PUBLIC)


@router.get("/healthz", summary="Is the process alive?")
async def healthz(request: Request) -> dict[str, str]:
    """Always 200 while the process answers."""
    return {"status": "ok", "version": parts_of(request).version}


@router.get("/readyz", summary="Can events be accepted durably?")
async def readyz(request: Request) -> JSONResponse:
    """200 when they can; the body says whether the store answers too."""
    parts = parts_of(request)
    accepts = parts.queue.accepts
    body: dict[str, Any] = {
        "status": "ready" if accepts else "not_ready",
        "queue": {"accepts": accepts, "pending_bytes": parts.queue.pending_bytes},
        "store": {
            "answers": await parts.queries.answers_soon(parts.store_answers),
            **parts.store_state(),
        },
    }
    return JSONResponse(body, status_code=200 if accepts else 503)


@router.get("/readyz/query", summary="Can questions be answered?")
async def readyz_query(request: Request) -> JSONResponse:
    """200 when the store answers."""
    parts = parts_of(request)
    answers = await parts.queries.answers_soon(parts.store_answers)
    body = {"status": "ready" if answers else "not_ready", "store": parts.store_state()}
    return JSONResponse(body, status_code=200 if answers else 503)


@router.get("/metrics", summary="Prometheus metrics")
async def metrics(request: Request) -> Response:
    """The collector's own metrics in Prometheus' text format."""
    text = await asyncio.to_thread(generate_latest, parts_of(request).registry)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
