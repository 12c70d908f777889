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
    """Serves some paths without a query itself, and leaves the rest to the application.

    `posts` are `POST` by path; `gets` are `GET` by a template that ends in its one parameter.
    """

    def __init__(
        self,
        app: FastAPI,
        *,
        posts: Mapping[str, Endpoint],
        gets: Mapping[str, Endpoint],
        on_error: OnError,
    ) -> None:
        self._app = app
        self._posts = {path: (_Route(path), endpoint) for path, endpoint in posts.items()}
        self._gets: dict[str, tuple[_Route, Endpoint, str]] = {}
        for path, endpoint in gets.items():
            folder, _, name = path.rpartition("/")
            self._gets[folder] = (_Route(path), endpoint, name.strip("{}"))
        self._on_error = on_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or one lifespan."""
        found = self._found(scope) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["app"] = self._app
        scope["route"], endpoint = found
        request = Request(scope, receive)
        try:
            response = await endpoint(request)
        except Exception as error:  # noqa: BLE001 - answered as the application would
            response = await self._on_error(request, error)
        await response(scope, receive, send)

    def _found(self, scope: Scope) -> tuple[_Route, Endpoint] | None:
        if scope["query_string"]:
            return None
        if scope["method"] == "POST":
            return self._posts.get(scope["path"])
        if scope["method"] == "GET":
            folder, _, value = scope["path"].rpartition("/")
            got = self._gets.get(folder)
            if got is not None and value:
                route, endpoint, name = got
                scope["path_params"] = {name: value}
                return route, endpoint
        return None
