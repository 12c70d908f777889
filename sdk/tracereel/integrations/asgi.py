"""An ASGI middleware that lets the runs of a request's sender go on inside the application.

Pure ASGI: it works under any server, with any framework, and imports neither.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import quote

from tracereel import _guard, _remote
from tracereel._clock import sortable_id
from tracereel._remote import Incoming
from tracereel.propagation import CLOCK_HEADER, Extraction, read_clock

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

REQUEST_ID_HEADER: Final = "x-request-id"
_ANSWERS: Final = ("http.response.start", "websocket.accept")


class TracereelMiddleware:
    """Adopts the trace, ids and clock of each request, and names the request in its answer.

    The request id is the sender's, else the `x-request-id` header's, else a new one; traced calls
    inside carry it, and the answer has it as `x-request-id`.

    Args:
        trust: which requests may say who they are (all, if not given). To the others a new run and
            a new request id are given: use it where strangers can reach the application.
    """

    def __init__(self, app: App, *, trust: Callable[[Scope], bool] | None = None) -> None:
        self._app = app
        self._trust = trust

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        incoming = None
        if scope["type"] in ("http", "websocket"):
            with _guard.Guard("asgi"):
                incoming = self._read(scope)
        if incoming is None:
            await self._app(scope, receive, send)
            return
        with Extraction(incoming, serving=True):
            await self._app(scope, receive, _answering(incoming, send))

    def _read(self, scope: Scope) -> Incoming:
        trusted = self._trust is None or self._trust(scope)
        headers = scope["headers"] if trusted else []
        found = _remote.read_carrier(headers)
        identity = found.identity
        if identity.request_id is None:
            given = _remote.header_values(headers, [REQUEST_ID_HEADER])[REQUEST_ID_HEADER]
            named = len(given) == 1 and _remote.usable("request_id", given[0])
            request_id = given[0] if named else sortable_id("req")
            said = {name: getattr(identity, name) for name in _remote.NAMES}
            identity = _remote.identity_of({**said, "request_id": request_id})
        return Incoming(identity, found.parent, found.members)


def _answering(incoming: Incoming, send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] in _ANSWERS:
            with _guard.Guard("asgi"):
                message = {**message, "headers": _with_ours(message, incoming)}
        await send(message)

    return answer


def _with_ours(message: Message, incoming: Incoming) -> list[tuple[bytes, bytes]]:
    headers = [(bytes(name), bytes(value)) for name, value in message.get("headers") or ()]
    if not any(name.lower() == REQUEST_ID_HEADER.encode() for name, _ in headers):
        # Quoted: an id that came in must not be able to write headers of its own on the way out.
        request_id = quote(
            incoming.identity.request_id or "", safe="!#$&'()*+,-./:;<=>?@[]^_`{|}~ "
        )
        headers.append((REQUEST_ID_HEADER.encode(), request_id.encode()))
    # Only a sender that told its clock knows what to do with ours.
    if incoming.identity.hlc is not None and (clock := read_clock()) is not None:
        headers.append((CLOCK_HEADER.encode(), clock.encode()))
    return headers
