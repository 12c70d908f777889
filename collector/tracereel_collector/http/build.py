"""Assemble the routes into one ASGI application."""

import time
from functools import lru_cache
from types import SimpleNamespace
from typing import Final

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracereel_collector.http import (
    clickhouse,
    events,
    export,
    fleets,
    group,
    health,
    jaeger,
    jaeger_v3,
    keys,
    langfuse,
    otlp,
    overviews,
    page,
    quarantine,
    replay,
    retention,
    scores,
    sql,
    tail,
    traces,
)
from tracereel_collector.http.dependencies import Parts
from tracereel_collector.http.errors import add_error_handlers
from tracereel_collector.http.scoped_router import REQUEST_OF, ScopedRoute, describe_security

_MODULES = (
    *(events, otlp, langfuse, keys, replay, overviews, traces, tail, sql, clickhouse, scores),
    *(fleets, retention, export, quarantine, health, jaeger_v3, jaeger, page),
)
ROUTES: Final[tuple[ScopedRoute, ...]] = tuple(
    route for module in _MODULES for route in module.router.routes
)
"""Every route, in matching order."""
_OWN_TELEMETRY = JSONResponse(
    {
        "error": {
            "code": "own_telemetry",
            "message": "this is the collector's own telemetry, sent to itself",
            "hint": "let TRACEREEL_SELF_TO name another OTLP endpoint",
        }
    },
    status_code=400,
)
"""Response to the collector's own telemetry, which would cause an endless export loop."""
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
"""Header of every response, so that browsers never render recorded text as a page."""


def build_api(parts: Parts) -> ASGIApp:
    """Build the ASGI application that serves all HTTP routes."""
    # FastAPI's own documentation pages load scripts from other hosts, so `/docs` is ours.
    app = FastAPI(title="tracereel", version=parts.version, docs_url=None, redoc_url=None)
    app.state.parts = parts
    app.router.routes.extend(ROUTES)
    if parts.peers is not None:
        app.router.routes.extend(group.router.routes)
    describe_security(app)
    add_error_handlers(app)
    served: ASGIApp = app
    if origins := parts.gate.origins:
        served = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=[
                *("authorization", "content-encoding", "content-type", "x-api-key"),
                "last-event-id",
            ],
            expose_headers=["retry-after"],
        )
    return _CountRequests(served, parts)


class _CountRequests:
    """Outermost middleware: counts and times requests and adds a header to every response.

    The route label is the path template, never the path, so that its values are bounded.
    """

    def __init__(self, app: ASGIApp, parts: Parts) -> None:
        self._app = app
        self._requests, self._observer, metrics = parts.requests, parts.observer, parts.http_metrics
        self._count = lru_cache(maxsize=1024)(lambda *labels: metrics.requests.labels(*labels).inc)
        self._observe = lru_cache(maxsize=256)(lambda route: metrics.seconds.labels(route).observe)
        # uvicorn creates protocols with only the application, so they read the limits here.
        self.state = SimpleNamespace(connection_limits=parts.connection_limits)

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
                await _OWN_TELEMETRY(scope, receive, noting)
            else:
                await self._app(scope, receive, noting)
        finally:
            if REQUEST_OF in scope:
                self._requests.give_back(scope[REQUEST_OF])
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
