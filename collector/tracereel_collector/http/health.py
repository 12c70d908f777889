"""`/healthz`, `/readyz`, `/readyz/query`, `/metrics`: health checks and metrics."""

import asyncio
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tracereel_collector.auth import KeyScope
from tracereel_collector.http.dependencies import parts_of
from tracereel_collector.http.scoped_router import ScopedRouter

router = ScopedRouter(KeyScope.PUBLIC)


@router.get("/healthz", summary="Is the process alive?")
async def healthz(request: Request) -> dict[str, str]:
    """Return 200 while the process runs."""
    return {"status": "ok", "version": parts_of(request).version}


@router.get("/readyz", summary="Can events be accepted durably?")
async def readyz(request: Request) -> JSONResponse:
    """Return 200 if events are accepted, else 503; the body also has the store's state."""
    parts = parts_of(request)
    refusal = parts.queue.refusal()
    accepts = refusal is None
    body: dict[str, Any] = {
        "status": "ready" if accepts else "not_ready",
        "queue": {
            "accepts": accepts,
            "pending_bytes": parts.queue.pending_bytes,
            **({} if accepts else {"reason": refusal}),
        },
        "store": {
            "answers": await parts.queries.answers_soon(parts.store_answers),
            **parts.store_state(),
        },
        "clock": parts.clock.status().document(),
        "jaeger": bool(parts.jaeger_url),
    }
    return JSONResponse(body, status_code=200 if accepts else 503)


@router.get("/readyz/query", summary="Can questions be answered?")
async def readyz_query(request: Request) -> JSONResponse:
    """Return 200 if the store responds, else 503."""
    parts = parts_of(request)
    answers = await parts.queries.answers_soon(parts.store_answers)
    body = {"status": "ready" if answers else "not_ready", "store": parts.store_state()}
    return JSONResponse(body, status_code=200 if answers else 503)


@router.get("/metrics", summary="Prometheus metrics")
async def metrics(request: Request) -> Response:
    """Return the collector's metrics in Prometheus text format."""
    text = await asyncio.to_thread(generate_latest, parts_of(request).registry)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
