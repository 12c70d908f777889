"""A short way to the busiest routes: past the router and its layers, to the same functions.

A framework's layers cost as much as checking dozens of events. The functions stay registered as
ordinary routes, which is where documentation and requests with parameters go.
"""

from collections.abc import Awaitable, Callable, Mapping

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

Endpoint = Callable[[Request], Awaitable[Response]]
OnError = Callable[[Request, Exception], Awaitable[Response]]


class _Route:
    """What the request counter asks a route for."""

    def __init__(self, path: str) -> None:
        self.path = path


class HotRoutes:
    """Serves `POST` without a query on some paths itself, and leaves the rest to the application."""

    def __init__(self, app: FastAPI, endpoints: Mapping[str, Endpoint], *, on_error: OnError):
        self._app = app
        self._endpoints = endpoints
        self._routes = {path: _Route(path) for path in endpoints}
        self._on_error = on_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one lifespan."""
        hot = scope["type"] == "http" and scope["method"] == "POST" and not scope["query_string"]
        endpoint = self._endpoints.get(scope["path"]) if hot else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        scope["app"] = self._app
        scope["route"] = self._routes[scope["path"]]
        request = Request(scope, receive)
        try:
            response = await endpoint(request)
        except Exception as error:  # noqa: BLE001 - answered as the application would
            response = await self._on_error(request, error)
        await response(scope, receive, send)
