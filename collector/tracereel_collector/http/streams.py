"""Streamed responses that recheck the caller and release resources at the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec
from fastapi.responses import FileResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from tracereel_collector.errors import CollectorError, ThrottledError

RECHECK_SECONDS: Final = 2.0
"""Interval of the check that ends streams of revoked or expired keys."""
LAST_EVENT_SECONDS: Final = 5.0
"""Longest wait for a slow client to read the last event."""
EVENT_STREAM: Final = b"text/event-stream"


class StreamRefusedError(ConnectionAbortedError):
    """Aborts a response, so that clients do not take it for complete."""


def is_stream(response: Response) -> bool:
    """Return whether a response has no known length, so that the key may expire meanwhile."""
    if isinstance(response, StreamingResponse | FileResponse):
        return True
    return all(name != b"content-length" for name, _ in response.raw_headers)


class AdmittedStream(Response):
    """Response that ends when `admit` refuses the caller.

    Server-Sent Events end with the event `cut`, or the response's `refused_event`. Other responses
    are aborted.
    """

    def __init__(self, answer: Response, admit: Callable[[], Any]) -> None:
        self.status_code = answer.status_code
        self.raw_headers = answer.raw_headers
        self.background = None  # the wrapped response runs its own
        self._answer = answer
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response and recheck the caller every few seconds."""
        started: list[Message] = []

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.append(message)
            await send(message)

        sending = asyncio.ensure_future(self._answer(scope, receive, noted))
        try:
            refusal = await self._refusal(sending)
        finally:
            sending.cancel()
            await asyncio.wait({sending})
        if refusal is None:
            sending.result()
        elif not started:
            raise refusal
        else:
            await self._end(started[0], refusal, send)

    async def _refusal(self, sending: "asyncio.Future[None]") -> CollectorError | None:
        """Wait for the end of the response; return the refusal if the caller is refused."""
        while not sending.done():
            await asyncio.wait({sending}, timeout=RECHECK_SECONDS)
            if not sending.done():
                try:
                    self._admit()
                except CollectorError as error:
                    return error
        return None

    async def _end(self, start: Message, refusal: CollectorError, send: Send) -> None:
        kind = dict(start["headers"]).get(b"content-type", b"")
        if kind.startswith(EVENT_STREAM):
            name = getattr(self._answer, "refused_event", "cut")
            reason = {"reason": refusal.message, "retry": isinstance(refusal, ThrottledError)}
            event = b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(reason))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_EVENT_SECONDS):
                    await send({"type": "http.response.body", "body": event, "more_body": False})
                return
        raise StreamRefusedError(f"the answer was broken off: {refusal.message}")


class HeldStream(StreamingResponse):
    """Streamed response that releases resources, such as a slot, when it ends.

    `refused_event` is the last of Server-Sent Events whose caller is refused.
    """

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        *,
        held: contextlib.AsyncExitStack,
        refused_event: str = "cut",
        **options: Any,
    ) -> None:
        super().__init__(chunks, **options)
        self.refused_event = refused_event
        self._held_until_end = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, then release the resources."""
        async with self._held_until_end:
            await super().__call__(scope, receive, send)
