"""Puts the surfaces together into one ASGI application."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from types import SimpleNamespace

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracereel_collector.api import (
    agents,
    clickhouse,
    completeness,
    deletion,
    diff,
    emitters,
    events,
    export,
    health,
    heartbeats,
    jaeger,
    jaeger_link,
    jaeger_v3,
    keys,
    login,
    logout,
    otlp,
    page,
    quarantine,
    quarantine_acts,
    replay,
    replayable,
    retention,
    retention_acts,
    score_acts,
    scores,
    sessions,
    sql,
    tail,
    tape,
    trace,
    traces,
)
from tracereel_collector.api.errors import add_error_handlers, answer_error
from tracereel_collector.api.hot import HotRoutes
from tracereel_collector.api.parts import Parts, RequestObserver
from tracereel_collector.api.surface import behind_gate, describe_security, include
from tracereel_collector.auth import Scope as KeyScope
from tracereel_collector.connections import ConnectionLimits
from tracereel_collector.telemetry import HttpMetrics

SURFACES = (
    events,
    otlp,
    heartbeats,
    replay,
    emitters,
    traces,
    trace,
    tape,
    replayable,
    jaeger_link,
    completeness,
    diff,
    tail,
    sessions,
    agents,
    sql,
    clickhouse,
    scores,
    score_acts,
    deletion,
    retention,
    retention_acts,
    export,
    quarantine,
    quarantine_acts,
    keys,
    login,
    logout,
    health,
    jaeger_v3,
    jaeger,
    page,
)
"""Everything that is served; each file holds one `router`."""
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
"""On every answer: recorded text in JSON is never taken for a page."""


def build_api(parts: Parts) -> ASGIApp:
    """The application that serves everything on the one port."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        parts.delivered.attach(asyncio.get_running_loop())
        yield

    # FastAPI's own pages load their scripts from elsewhere; `/docs` is ours.
    app = FastAPI(
        title="tracereel",
        version=parts.version,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.parts = parts
    for surface in SURFACES:
        include(app, surface.router)
    describe_security(app)
    add_error_handlers(app)
    hot = HotRoutes(
        app,
        posts={
            path: behind_gate(KeyScope.WRITE, endpoint)
            for path, endpoint in (
                ("/v1/events", events.post_events),
                ("/v1/traces", otlp.post_traces),
                ("/v1/logs", otlp.post_logs),
                ("/v1/metrics", otlp.post_metrics),
            )
        },
        gets={"/v1/replay/{trace_id}": behind_gate(KeyScope.READ, replay.get_whole_replay)},
        on_error=answer_error,
    )
    served: ASGIApp = hot
    if parts.cors_origins:
        served = CORSMiddleware(
            hot,
            allow_origins=parts.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=[
                *("authorization", "content-encoding", "content-type", "x-api-key"),
                "last-event-id",
            ],
            expose_headers=["retry-after"],
        )
    return _CountRequests(
        served,
        metrics=parts.http_metrics,
        connection_limits=parts.connection_limits,
        observer=parts.observer,
    )


class _CountRequests:
    """Counts and times requests by route: the path template, never the path, bounds the labels.

    The outermost layer, so that what every answer carries is added here.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: HttpMetrics,
        connection_limits: ConnectionLimits,
        observer: RequestObserver | None,
    ) -> None:
        self._app = app
        self._observer = observer
        self._count = lru_cache(maxsize=1024)(lambda *labels: metrics.requests.labels(*labels).inc)
        self._observe = lru_cache(maxsize=256)(lambda route: metrics.seconds.labels(route).observe)
        # Where the server's protocol looks for them: it is made with nothing but the application.
        self.state = SimpleNamespace(connection_limits=connection_limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if not any(name == _NO_SNIFFING[0] for name, _ in message["headers"]):
                    message["headers"] = [*message["headers"], _NO_SNIFFING]
            await send(message)

        observer = self._observer
        try:
            if observer is not None and observer.is_own(scope["headers"]):
                await _refuse_own(noting)
            else:
                await self._app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            seconds = time.perf_counter() - started
            self._count(route, str(status))()
            self._observe(route)(seconds)
            if observer is not None:
                observer.request_done(
                    method=scope["method"],
                    route=route,
                    status=status,
                    seconds=seconds,
                    headers=scope["headers"],
                )


async def _refuse_own(send: Send) -> None:
    """What this collector says of itself has come home, by whatever way: it would never end."""
    answer = JSONResponse(
        {
            "error": {
                "code": "own_telemetry",
                "message": "this is the collector's own telemetry, sent to itself",
                "hint": "let TRACEREEL_SELF_TO name another OTLP endpoint",
            }
        },
        status_code=400,
    )
    await send({"type": "http.response.start", "status": 400, "headers": answer.raw_headers})
    await send({"type": "http.response.body", "body": answer.body})
