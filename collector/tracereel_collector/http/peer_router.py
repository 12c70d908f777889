"""Router of the routes between members of a group: the group's secret instead of a key."""

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from tracereel_collector.errors import UnknownResourceError
from tracereel_collector.group.members import Group
from tracereel_collector.http.dependencies import parts_of

PREFIX: Final = "/v1/group"
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PeerRoute(APIRoute):
    """Route that refuses senders without the secret and, unless `any_list`, with another list."""

    def __init__(
        self, path: str, endpoint: Callable[..., Any], *, any_list: bool = False, **options: Any
    ) -> None:
        self.any_list = any_list
        super().__init__(path, endpoint, include_in_schema=False, **options)

    def get_route_handler(self) -> Handler:
        """Check the sender before the handler runs."""
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            group = group_of(request)
            group.check_secret(request.headers)
            if not self.any_list:
                group.check_list(request.headers)
            return await handler(request)

        return guarded


class PeerRouter:
    """Internal routes of one module, below `/v1/group`; only collectors of a group have them."""

    def __init__(self) -> None:
        self.routes: list[PeerRoute] = []

    def get(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Declare a `GET` route."""
        return self._declare("GET", path, options)

    def post(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Declare a `POST` route."""
        return self._declare("POST", path, options)

    def _declare(
        self, method: str, path: str, options: dict[str, Any]
    ) -> Callable[[Endpoint], Endpoint]:
        def declare(endpoint: Endpoint) -> Endpoint:
            self.routes.append(PeerRoute(PREFIX + path, endpoint, methods=[method], **options))
            return endpoint

        return declare


def named(not_reached: list[str]) -> dict[str, list[str]]:
    """Return the members that a change has not reached, as a field of an answer."""
    return {"not_reached": not_reached} if not_reached else {}


def peer_body(request: Request) -> AbstractAsyncContextManager[bytes]:
    """Read the body of a request between members within the limits of their memory."""
    return parts_of(request).relays.read(request.stream(), request.headers, tenant="")


def group_of(request: Request) -> Group:
    """Return the group of the collector that serves a request."""
    peers = parts_of(request).peers
    if peers is None:
        raise UnknownResourceError("this collector is in no group")
    return peers.group
