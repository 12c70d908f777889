"""Run of one request: opened by the ASGI middleware, ended with the response and its background tasks."""

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from tracereel._core import recorder as _recorder
from tracereel._core import tape_session
from tracereel._core.executions.arguments import Arguments
from tracereel._core.executions.pipeline import PipelineScope, PipelineSpec
from tracereel._core.recorder import Recorder
from tracereel._redact import values
from tracereel._runtime import guard

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

SERVER_ERROR: Final = 500
_METHODS: Final = frozenset(
    ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE")
)
_UNKNOWN_METHOD: Final = "HTTP"


class ServerResponseError(Exception):
    """Response with a status of 500 or above; recorded, never raised."""

    code = "HTTP_SERVER_ERROR"


def method_of(scope: MutableMapping[str, Any]) -> str:
    """Return the method of a request; one that HTTP does not define is `HTTP`."""
    if scope["type"] == "websocket":
        return "WEBSOCKET"
    method = str(scope.get("method", "")).upper()
    return method if method in _METHODS else _UNKNOWN_METHOD


class RequestSpec(PipelineSpec):
    """Name, method and route of a request."""

    __slots__ = ("method", "route")

    def __init__(self, name: str, *, method: str, route: str | None) -> None:
        super().__init__(values.text(name, values.SHORT_LIMIT), agents=None, ids={}, inputs=None)
        self.method = method
        self.route = route

    def open(self, recorder: Recorder, arguments: Arguments) -> "RequestScope":
        """Open the scope of a request."""
        return RequestScope(recorder, self, arguments)


class RequestScope(PipelineScope):
    """A request, from its arrival to the end of its background tasks."""

    spec: RequestSpec

    __slots__ = ("_answered_ms", "_bytes", "_chunks", "_is_answered", "_left", "_status")

    def opened(self) -> None:
        self._status: int | None = None
        self._chunks = self._bytes = 0
        self._answered_ms: int | None = None
        self._is_answered = False
        self._left = False
        # Functions inside of the request are the entry points of a re-execution.
        self.execution.notes[tape_session.OUTSIDE] = True

    def opening(self) -> dict[str, Any]:
        return {**super().opening(), "http_method": self.spec.method, "http_route": self.spec.route}

    def closing(self, result: object, milliseconds: int) -> dict[str, Any]:
        event = super().closing(result, milliseconds)
        if result is None and "output" not in self.execution.notes:
            event["output_summary"] = None
        return event

    def closing_cancelled(self, error: BaseException | None, milliseconds: int) -> dict[str, Any]:
        event = super().closing_cancelled(error, milliseconds)
        if error is None:
            event["cancel_reason"] = "client_disconnected"
        return event

    def closed_fields(self, status: str, milliseconds: int) -> dict[str, Any]:
        event = super().closed_fields(status, milliseconds)
        event["http_method"], event["http_route"] = self.spec.method, self.spec.route
        event["http_status_code"] = self._status
        event["response_chunks"], event["response_bytes"] = self._chunks, self._bytes
        event["response_time_ms"] = self._answered_ms
        return event

    def receiving(self, receive: Receive) -> Receive:
        """Return a `receive` that notices a client that leaves before the response is complete."""

        async def received() -> Message:
            message = await receive()
            if message.get("type") == "http.disconnect" and not self._is_answered:
                self._left = True
            return message

        return received

    def sending(self, send: Send) -> Send:
        """Return a `send` that counts the response."""

        async def sent(message: Message) -> None:
            with guard.Guard("asgi"):
                self._count(message)
            await send(message)
            if self._is_answered and self._answered_ms is None:
                self._answered_ms = self.since_begin_ms(time.perf_counter_ns())

        return sent

    def _count(self, message: Message) -> None:
        kind = message.get("type")
        if kind == "http.response.start":
            self._status = message.get("status")
        elif kind == "http.response.body":
            size = len(message.get("body") or b"")
            self._bytes += size
            self._chunks += size > 0
            self._is_answered = not message.get("more_body", False)

    def returned(self) -> None:
        """End the run of a request whose application returned."""
        if self._left and not self._is_answered:
            self.cancel()
        elif self._status is not None and self._status >= SERVER_ERROR:
            self.fail(ServerResponseError(f"the response has the status {self._status}"))
        else:
            self.complete(None)


def open_request(spec: RequestSpec, prompt: str | None) -> RequestScope | None:
    """Open the run of a request and make it current; `None` if nothing is recorded."""
    recorder = _recorder.active()
    if recorder is None:
        return None
    scope = spec.open(recorder, Arguments((), 0, (), {"user_prompt": prompt}))
    scope.attach()
    return scope
