"""Puts the surfaces together into one ASGI application."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracereel_collector.api import emitters, events, health, otlp, page, quarantine, replay
from tracereel_collector.api.errors import add_error_handlers, answer_error
from tracereel_collector.api.hot import HotRoutes
from tracereel_collector.api.parts import Parts
from tracereel_collector.telemetry import HttpMetrics


def build_api(parts: Parts) -> ASGIApp:
    """The application that serves everything on the one port."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        parts.delivered.attach(asyncio.get_running_loop())
        yield

    app = FastAPI(title="tracereel", version=parts.version, lifespan=lifespan)
    app.state.parts = parts
    for surface in (events, otlp, replay, emitters, quarantine, health, page):
        app.include_router(surface.router)
    add_error_handlers(app)
    hot = HotRoutes(
        app,
        {
            "/v1/events": events.post_events,
            "/v1/traces": otlp.post_traces,
            "/v1/logs": otlp.post_logs,
            "/v1/metrics": otlp.post_metrics,
        },
        on_error=answer_error,
    )
    return _CountRequests(hot, metrics=parts.http_metrics)


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
