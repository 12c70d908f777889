"""Sizes of gRPC messages, read from the first bytes of each message."""

import asyncio
from dataclasses import dataclass

HEAD_BYTES = 5
MAX_CALLS = 256
"""Calls of a connection that are kept; gRPC's server refuses some without calling the handler."""


@dataclass(frozen=True, slots=True)
class MessageHead:
    """Prefix of a gRPC message: size on the wire, and whether it is compressed."""

    size: int
    is_packed: bool


class _GrpcCall:
    def __init__(self) -> None:
        self.came = b""
        self.waiter: asyncio.Future[None] | None = None

    @property
    def head(self) -> MessageHead | None:
        if len(self.came) < HEAD_BYTES:
            return None
        return MessageHead(int.from_bytes(self.came[1:HEAD_BYTES]), bool(self.came[0]))

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class MessageHeads:
    """Calls of one connection whose message prefix was not read yet."""

    def __init__(self) -> None:
        self._calls: dict[int, _GrpcCall] = {}
        self._latest = 0

    def begin(self, stream: int) -> None:
        """Record the start of a call; ignore trailers."""
        if stream <= self._latest:
            return
        self._latest = stream
        self._calls[stream] = _GrpcCall()
        if len(self._calls) > MAX_CALLS:
            self.end(next(iter(self._calls)))

    def is_missing(self, stream: int) -> bool:
        """Return whether the prefix of a call's message is incomplete."""
        call = self._calls.get(stream)
        return call is not None and len(call.came) < HEAD_BYTES

    def add(self, stream: int, part: bytes) -> None:
        """Add bytes of a call to its prefix."""
        call = self._calls[stream]
        call.came += part[: HEAD_BYTES - len(call.came)]
        if len(call.came) == HEAD_BYTES:
            call.wake()

    def end(self, stream: int) -> None:
        """Forget a call that was cancelled or has ended."""
        if (call := self._calls.pop(stream, None)) is not None:
            call.wake()

    def end_all(self) -> None:
        """Forget all calls of a closed connection."""
        for stream in list(self._calls):
            self.end(stream)

    async def wait_for(self, stream: int) -> MessageHead | None:
        """Wait for the prefix of a call's message; None if the call ends first."""
        call = self._calls.get(stream)
        if call is None:
            return None
        try:
            if call.head is None:
                call.waiter = asyncio.get_running_loop().create_future()
                await call.waiter
            return call.head
        finally:
            self._calls.pop(stream, None)
