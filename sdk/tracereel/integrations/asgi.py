"""ASGI middleware that continues the sender's run inside the application.

It works with any ASGI server and framework, and imports neither.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import quote

from tracereel._core import remote_identity
from tracereel._core.remote_identity import Incoming
from tracereel._runtime import guard
from tracereel._runtime.clock import sortable_id
from tracereel.propagation import CLOCK_HEADER, Extraction, read_clock

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

REQUEST_ID_HEADER: Final = "x-request-id"
_ANSWERS: Final = ("http.response.start", "websocket.accept")


class TracereelMiddleware:
    """Adopts the trace, ids and clock of requests, and returns `x-request-id`.

    The request id comes from the sender, else from the `x-request-id` header, else it is new.
    Traced calls carry it, and the response has it as `x-request-id`.

    User and session ids of a request are adopted only for trusted senders, because any client of
    the application could send another user's id.

    Args:
        trust: decides per request whether its sender is trusted. True: adopt trace, ids and clock,
            and also user and session. False: adopt nothing; create a new run and request id.
            Default: adopt trace, request id and clock, but not user and session.
    """

    def __init__(self, app: App, *, trust: Callable[[Scope], bool] | None = None) -> None:
        self._app = app
        self._trust = trust

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        incoming = None
        if scope["type"] in ("http", "websocket"):
            with guard.Guard("asgi"):
                incoming = self._read(scope)
        if incoming is None:
            await self._app(scope, receive, send)
            return
        with Extraction(incoming, serving=True):
            await self._app(scope, receive, _answering(incoming, send))

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
            said = {name: getattr(identity, name) for name in remote_identity.NAMES}
            identity = remote_identity.identity_of({**said, "request_id": request_id})
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
