"""Router whose routes each declare the scope that callers need."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from tracereel_collector.auth import Caller, KeyScope
from tracereel_collector.auth.claims import QUERY as TENANT
from tracereel_collector.errors import BadRequestError
from tracereel_collector.http.dependencies import parts_of
from tracereel_collector.http.streams import AdmittedStream, is_stream

OURS: Final = "/v1/"
"""Prefix of routes that refuse unknown parameters; clients of other APIs may send extra ones."""
REQUEST_OF: Final = "tracereel.request_of"
"""Key in the ASGI scope: tenant whose share holds the request until the response is sent."""
_SECURITY = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Credentials = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Copies a key sent in a protocol-specific way to the API key header."""


def _unchanged(headers: Mapping[str, str]) -> Mapping[str, str]:
    return headers


class ScopedRoute(APIRoute):
    """Route that refuses callers without its scope."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        scope: KeyScope,
        credentials: Credentials = _unchanged,
        openapi_extra: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.scope = scope
        self.credentials = credentials
        extra = {**(openapi_extra or {}), "x-tracereel-scope": scope.value}
        if scope is not KeyScope.PUBLIC:
            extra["security"] = [{name: []} for name in _SECURITY]
        super().__init__(path, endpoint, openapi_extra=extra, **options)
        if self.body_field is not None:
            raise TypeError(f"{path}: read bodies with parts.bodies; FastAPI takes any size")

    def get_route_handler(self) -> Handler:
        """Admit the caller before the handler runs, and again during a streamed response."""
        handler = super().get_route_handler()
        if self.scope is KeyScope.PUBLIC:
            return handler
        # Their parameters have defaults, and FastAPI takes long to find that none is given.
        receives = self.scope is KeyScope.WRITE and self.methods == {"POST"}
        bare = self.endpoint if receives else handler

        async def guarded(request: Request) -> Response:
            parts = parts_of(request)

            def admit() -> Caller:
                return parts.gate.admit(
                    self.credentials(request.headers),
                    scope=self.scope,
                    peer=request.client.host if request.client else "",
                    query=request.scope["query_string"].decode("latin-1"),
                )

            caller = request.state.caller = admit()
            parts.requests.take(caller.tenant)
            request.scope[REQUEST_OF] = caller.tenant
            if self.scope is not KeyScope.WRITE and self.path.startswith(OURS):
                self._refuse_unknown(request.query_params)
            response = await (handler if request.scope["query_string"] else bare)(request)
            return AdmittedStream(response, admit) if is_stream(response) else response

        return guarded

    def _refuse_unknown(self, given: Iterable[str]) -> None:
        """Refuse parameters that are not read: a misspelt filter would match everything."""
        fields: dict[str, Any] = {
            field.alias: field.field_info for field in self.dependant.query_params
        }
        for name in given:
            if name not in fields and name != TENANT:
                shown = [each for each in fields if fields[each].include_in_schema]
                known = ", ".join(sorted(shown))
                raise BadRequestError(
                    f"there is no parameter {name[:40]!r};"
                    f" expected {f'some of {known}' if known else 'none'}"
                )


class ScopedRouter:
    """Routes of one module, and the scope of those that name no other; options are FastAPI's."""

    def __init__(self, scope: KeyScope, *, credentials: Credentials = _unchanged) -> None:
        self.routes: list[ScopedRoute] = []
        self._options = {"scope": scope, "credentials": credentials}

    def get(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Declare a `GET` route."""
        return self._declare("GET", path, options)

    def head(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Declare a `HEAD` route."""
        return self._declare("HEAD", path, options)

    def post(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Declare a `POST` route."""
        return self._declare("POST", path, options)

    def delete(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:
        """Declare a `DELETE` route."""
        return self._declare("DELETE", path, options)

    def _declare(
        self, method: str, path: str, options: Mapping[str, Any]
    ) -> Callable[[Endpoint], Endpoint]:
        def declare(endpoint: Endpoint) -> Endpoint:
            route = ScopedRoute(path, endpoint, methods=[method], **{**self._options, **options})
            self.routes.append(route)
            return endpoint

        return declare


def describe_security(app: FastAPI) -> None:
    """Add the authentication schemes to the OpenAPI document."""
    document = app.openapi

    def with_keys() -> dict[str, Any]:
        made = document()
        made.setdefault("components", {})["securitySchemes"] = _SECURITY
        return made

    app.openapi = with_keys  # type: ignore[method-assign]
