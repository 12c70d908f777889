"""ASGI middleware: a run for each request, which continues the sender's run if it has one.

It works with any ASGI server and framework, and imports neither. Routes of FastAPI and Starlette
name the runs.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from tracereel._core import remote_identity
from tracereel._core.remote_identity import Incoming
from tracereel._runtime import guard
from tracereel._runtime.clock import sortable_id
from tracereel.integrations import _request_places, _request_run, _routes
from tracereel.integrations._request_places import Place
from tracereel.integrations._request_run import RequestSpec
from tracereel.integrations._routes import MatchedRoute
from tracereel.propagation import CLOCK_HEADER, Extraction, read_clock

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

REQUEST_ID_HEADER: Final = "x-request-id"
_ANSWERS: Final = ("http.response.start", "websocket.accept")


class TracereelMiddleware:
    """Opens a run for each request, adopts its trace, ids and clock, and returns `x-request-id`.

    A run is named after the method and the route (`GET /orders/{number}`). It ends when the response
    has been sent and its background tasks are done. A request without a route opens no run: its traced
    calls are runs of their own, with the same request id.

    The request id comes from the sender, else from the `x-request-id` header, else it is new.
    Traced calls carry it, and the response has it as `x-request-id`.

    User and session ids of a request are adopted only for trusted senders, because any client of
    the application could send another user's id. `session` and `user` name places that the
    application itself believes.

    Args:
        name: name of the runs, or a function of the scope; `None` from it opens no run.
        session, user: place of the id: `header:NAME`, `cookie:NAME`, `query:NAME`, `path:NAME`, or a
            function of the scope. An id found there wins over one of a trusted sender.
        prompt: place of the user's request, recorded as `user_prompt`.
        exclude: routes without runs, such as `/health`.
        trust: decides per request whether its sender is trusted. True: adopt trace, ids and clock,
            and also user and session. False: adopt nothing; create a new run and request id.
            Default: adopt trace, request id and clock, but not user and session.

    Raises:
        ValueError: a place is written in another form.
    """

    def __init__(
        self,
        app: App,
        *,
        name: str | Callable[[Scope], str | None] | None = None,
        session: Place | None = None,
        user: Place | None = None,
        prompt: Place | None = None,
        exclude: Collection[str] = (),
        trust: Callable[[Scope], bool] | None = None,
    ) -> None:
        self._app = app
        self._name = name
        places = {"session": session, "user": user, _request_places.PROMPT: prompt}
        self._places = {
            option: _request_places.reader_of(option, place)
            for option, place in places.items()
            if place is not None
        }
        self._excluded = frozenset([exclude] if isinstance(exclude, str) else exclude)
        self._trust = trust

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        incoming, spec, prompt = None, None, None
        if scope["type"] in ("http", "websocket"):
            with guard.Guard("asgi"):
                route = _routes.find_route(scope.get("app") or self._app, scope)
                found = self._find(scope, {} if route is None else route.path_params)
                prompt = found.pop(_request_places.PROMPT, None)
                incoming = self._read(scope)
                ids = {f"{option}_id": value for option, value in found.items()}
                incoming = replace(incoming, identity=replace(incoming.identity, **ids))
                spec = self._spec(scope, route)
        if incoming is None:
            await self._app(scope, receive, send)
            return
        send = _answering(incoming, send)
        with Extraction(incoming, serving=True):
            run = None
            if spec is not None:
                with guard.Guard("asgi"):
                    run = _request_run.open_request(spec, prompt)
            if run is None:
                await self._app(scope, receive, send)
                return
            try:
                await self._app(scope, run.receiving(receive), run.sending(send))
            except BaseException as error:
                run.fail(error)
                raise
            run.returned()

    def _spec(self, scope: Scope, route: MatchedRoute | None) -> RequestSpec | None:
        """Return the name and route of the run, or `None` if the request opens none."""
        template = None if route is None else route.template
        if template in self._excluded:
            return None
        method = _request_run.method_of(scope)
        name: str | None = None
        if callable(self._name):
            name = self._name(scope)
        elif self._name is not None:
            name = self._name
        elif template is not None:
            name = f"{method} {template}"
        return RequestSpec(name, method=method, route=template) if name else None

    def _find(self, scope: Scope, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the values in the configured places."""
        return {
            option: value
            for option, reader in self._places.items()
            if (value := _request_places.read_place(reader, scope, params)) is not None
        }

    def _read(self, scope: Scope) -> Incoming:
        trusted = self._trust is not None and self._trust(scope)
        headers = scope["headers"] if trusted or self._trust is None else []
        found = remote_identity.read_carrier(headers)
        if not trusted:
            found = remote_identity.without_person(found)
        identity = found.identity
        if identity.request_id is None:
            given = remote_identity.header_values(headers, [REQUEST_ID_HEADER])[REQUEST_ID_HEADER]
            named = len(given) == 1 and remote_identity.usable("request_id", given[0])
            request_id = given[0] if named else sortable_id("req")
            fields = {name: getattr(identity, name) for name in remote_identity.NAMES}
            identity = remote_identity.identity_of({**fields, "request_id": request_id})
        return Incoming(identity, found.parent, found.members)


def _answering(incoming: Incoming, send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] in _ANSWERS:
            with guard.Guard("asgi"):
                message = {**message, "headers": _with_ours(message, incoming)}
        await send(message)

    return answer


def _with_ours(message: Message, incoming: Incoming) -> list[tuple[bytes, bytes]]:
    headers = [(bytes(name), bytes(value)) for name, value in message.get("headers") or ()]
    if not any(name.lower() == REQUEST_ID_HEADER.encode() for name, _ in headers):
        # Quote the id, so that a request cannot inject response headers.
        request_id = quote(
            incoming.identity.request_id or "", safe="!#$&'()*+,-./:;<=>?@[]^_`{|}~ "
        )
        headers.append((REQUEST_ID_HEADER.encode(), request_id.encode()))
    # Only a sender that sent its clock can use ours.
    if incoming.identity.hlc is not None and (clock := read_clock()) is not None:
        headers.append((CLOCK_HEADER.encode(), clock.encode()))
    return headers
