"""`/healthz`, `/readyz`, `/readyz/query`, `/metrics`: health checks and metrics."""

import asyncio
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from prometheus_client.exposition import choose_encoder

from tracereel_collector.auth import KeyScope
from tracereel_collector.group.members import Group
from tracereel_collector.http.dependencies import Parts, parts_of
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
    if parts.peers is not None and parts.peer_states is not None:
        body["group"] = {
            **await asyncio.to_thread(_membership, parts, parts.peers.group),
            "peers": parts.peer_states.document(),
        }
    return JSONResponse(body, status_code=200 if accepts else 503)


def _membership(parts: Parts, group: Group) -> dict[str, Any]:
    """Return whether this member owns its share, and whose ledgers it waits for otherwise."""
    state = parts.queue.membership.state()
    leaves = group.name not in group.names
    waits_for = [] if state.is_active or leaves else state.missing(group.lost)
    return {
        "name": group.name,
        "state": "leaving" if leaves else "active" if state.is_active else "waiting",
        **({"waits_for": waits_for} if waits_for else {}),
    }


@router.get("/readyz/query", summary="Can questions be answered?")
async def readyz_query(request: Request) -> JSONResponse:
    """Return 200 if the store responds and has the schema, else 503."""
    parts = parts_of(request)
    state = parts.store_state()
    ready = await parts.queries.answers_soon(parts.store_answers) and state.get("usable", False)
    body = {"status": "ready" if ready else "not_ready", "store": state}
    return JSONResponse(body, status_code=200 if ready else 503)


@router.get("/metrics", summary="Prometheus metrics")
async def metrics(request: Request) -> Response:
    """Return the collector's metrics in Prometheus text format, or as OpenMetrics when asked."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    text = await asyncio.to_thread(encode, parts_of(request).registry)
    # Of the application, so that the framework adds no second charset.
    return Response(text, headers={"content-type": content_type})
