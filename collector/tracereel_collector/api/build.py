"""Puts the surfaces together into one ASGI application."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracereel_collector.api import (
    emitters,
    events,
    health,
    heartbeats,
    keys,
    otlp,
    page,
    replay,
)
from tracereel_collector.api.errors import add_error_handlers
from tracereel_collector.api.parts import Parts
from tracereel_collector.api.surface import describe_security, include
from tracereel_collector.telemetry import HttpMetrics

SURFACES = (events, otlp, heartbeats, replay, emitters, keys, health, page)
"""Everything that is served; each file holds one `router`."""


def build_api(parts: Parts) -> FastAPI:
    """The application that serves everything on the one port."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        parts.delivered.attach(asyncio.get_running_loop())
        yield

    app = FastAPI(title="tracereel", version=parts.version, lifespan=lifespan)
    app.state.parts = parts
    app.state.connection_limits = parts.connection_limits
    for surface in SURFACES:
        include(app, surface.router)
    describe_security(app)
    add_error_handlers(app)
    if parts.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=parts.cors_origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["authorization", "content-encoding", "content-type", "x-api-key"],
            expose_headers=["retry-after"],
        )
    app.add_middleware(_CountRequests, metrics=parts.http_metrics)
    return app


class _CountRequests:
    """Counts and times requests by route: the path template, never the path, bounds the labels."""

    def __init__(self, app: ASGIApp, *, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics

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
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - started)
