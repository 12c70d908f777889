"""Routers whose every route demands a scope: one that demands nothing cannot be registered."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ClassVar, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from tracereel_collector.auth import Caller, Scope
from tracereel_collector.auth.claims import QUERY as TENANT
from tracereel_collector.errors import BadRequestError

OURS: Final = "/v1/"
"""Where our own routes are; Jaeger's and ClickHouse's clients send what they like."""
_SECURITY = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}


Handler = Callable[[Request], Coroutine[Any, Any, Response]]


Credentials = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Puts a key that came in a protocol's own way where the gate looks for it."""


def _as_they_came(headers: Mapping[str, str]) -> Mapping[str, str]:
    return headers


def behind_gate(
    scope: Scope, handler: Handler, *, credentials: Credentials = _as_they_came
) -> Handler:
    """The handler for those who have a scope; also for ways past the router."""

    async def guarded(request: Request) -> Response:
        request.state.caller = request.app.state.parts.gate.admit(
            credentials(request.headers),
            scope=scope,
            peer=request.client.host if request.client else "",
            query=request.scope["query_string"].decode("latin-1"),
        )
        return await handler(request)

    return guarded


def knowing_only(names: Mapping[str, bool], handler: Handler) -> Handler:
    """The handler for requests whose every parameter it reads; some of those are not offered.

    A filter that is misspelt would otherwise find everything, and nobody would notice.
    """

    async def checked(request: Request) -> Response:
        for name in request.query_params:
            if name not in names and name != TENANT:
                known = ", ".join(sorted(each for each, is_offered in names.items() if is_offered))
                raise BadRequestError(
                    f"there is no parameter {name[:40]!r};"
                    f" expected {f'some of {known}' if known else 'none'}"
                )
        return await handler(request)

    return checked


class ScopedRoute(APIRoute):
    """A route that lets nobody in who has not its scope."""

    scope: ClassVar[Scope]

    def __init__(self, *args: Any, **options: Any) -> None:
        extra: dict[str, Any] = {"x-tracereel-scope": self.scope.value}
        if self.scope is not Scope.PUBLIC:
            extra["security"] = [{name: []} for name in _SECURITY]
        options["openapi_extra"] = {**(options.get("openapi_extra") or {}), **extra}
        super().__init__(*args, **options)
        if self.body_field is not None:
            raise TypeError(f"{self.path}: read bodies with parts.bodies; FastAPI takes any size")

    def get_route_handler(self) -> Handler:
        """The handler behind the gate."""
        handler = super().get_route_handler()
        if self.scope is Scope.PUBLIC:
            return handler
        if self.scope is not Scope.WRITE and self.path.startswith(OURS):
            names = {
                field.alias: bool(getattr(field.field_info, "include_in_schema", True))
                for field in self.dependant.query_params
            }
            handler = knowing_only(names, handler)
        return behind_gate(self.scope, handler)


class _Public(ScopedRoute):
    scope = Scope.PUBLIC


class _Write(ScopedRoute):
    scope = Scope.WRITE


class _Read(ScopedRoute):
    scope = Scope.READ


class _Admin(ScopedRoute):
    scope = Scope.ADMIN


_CLASSES: dict[Scope, type[ScopedRoute]] = {
    each.scope: each for each in (_Public, _Write, _Read, _Admin)
}


class Surface(APIRouter):
    """A router all of whose routes demand the same scope."""

    def __init__(self, *, scope: Scope, route_class: type[ScopedRoute] | None = None) -> None:
        super().__init__(route_class=route_class or _CLASSES[scope])


def include(app: FastAPI, router: APIRouter) -> None:
    """Serve a surface.

    Raises:
        TypeError: a route of it has no scope.
    """
    for route in router.routes:
        if not isinstance(route, ScopedRoute):
            raise TypeError(
                f"{getattr(route, 'path', route)}: the route has no scope; make it on a Surface"
            )
    app.include_router(router)


def describe_security(app: FastAPI) -> None:
    """Say in the OpenAPI document how a key is sent."""
    document = app.openapi

    def with_keys() -> dict[str, Any]:
        made = document()
        made.setdefault("components", {})["securitySchemes"] = _SECURITY
        return made

    app.openapi = with_keys  # type: ignore[method-assign]


def caller_of(request: Request) -> Caller:
    """Who sent a request, as the gate found out."""
    caller: Caller = request.state.caller
    return caller
