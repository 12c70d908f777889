"""gRPC port: limits connections and headers before they reach gRPC's server."""

import asyncio
import contextlib
from asyncio import TimerHandle, Transport
from typing import Any

from tracereel_collector.http.connections import IDLE_SECONDS, ConnectionLimits
from tracereel_collector.http.grpc_frames import FrameError, HeaderFilter


class GrpcListener:
    """Proxy to the gRPC server on a loopback port; belongs to one event loop."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self.header_seconds = limits.header_seconds
        self._listening: asyncio.Server | None = None
        self._open: set[GrpcClient] = set()
        self.clients: dict[int, GrpcClient] = {}
        """Connected clients by the loopback port of their connection to the server."""
        self.server_port = 0

    async def start(self, host: str, port: int, *, server_port: int, together: bool) -> None:
        """Listen; `together` shares the port with other processes."""
        self.server_port = server_port
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: GrpcClient(self), host, port, reuse_port=together or None, backlog=1024
        )

    def close(self) -> None:
        """Stop accepting connections."""
        if self._listening is not None:
            self._listening.close()

    def end_all(self) -> None:
        """Abort the remaining connections."""
        for each in list(self._open):
            each.abort()

    def opened(self, client: "GrpcClient") -> None:
        """Record a connection; above the limit, end a stranger's, an idle one or this one."""
        self._open.add(client)
        if len(self._open) > self._limits.max_connections:
            latest = client.opened_at - IDLE_SECONDS
            # A connection without a valid key never displaces one that has one.
            strangers = [
                each for each in self._open if not each.is_admitted and each.opened_at < latest
            ]
            idle = [each for each in self._open if each.active_at < latest]
            gives_way = min(strangers, key=lambda each: each.opened_at, default=None) or min(
                idle, key=lambda each: each.active_at, default=client
            )
            self.end(gives_way, "too_many" if gives_way is client else "gave_way")

    def closed(self, client: "GrpcClient") -> None:
        """Forget a closed connection."""
        self._open.discard(client)

    def end(self, client: "GrpcClient", reason: str) -> None:
        """Abort a connection and count the reason."""
        self._limits.on_refused(reason)
        client.abort()


class _Side(asyncio.Protocol):
    """One side of a proxied connection, with backpressure to the other side."""

    transport: Transport
    other: "Transport | None" = None

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.is_closing():
            self.other.resume_reading()

    def eof_received(self) -> bool:
        if self.other is not None and not self.other.is_closing():
            self.other.write_eof()
        return True  # keep the other direction open


class GrpcClient(_Side):
    """Connection of a client: its address, message prefixes, and whether it had a valid key."""

    def __init__(self, listener: GrpcListener) -> None:
        self._listener = listener
        self._filter = HeaderFilter()
        self.messages = self._filter.messages
        self._loop = asyncio.get_running_loop()
        self._connecting: asyncio.Task[None] | None = None
        self._port = 0
        self._early = b""
        self._deadline: TimerHandle | None = None
        self.opened_at = self.active_at = self._loop.time()
        self.is_admitted = False
        self.host = ""

    def connection_made(self, transport: Any) -> None:
        """Connect to the server."""
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.host = peer[0] if peer else ""
        self._connecting = self._loop.create_task(self._connect())
        self._listener.opened(self)

    async def _connect(self) -> None:
        try:
            server, _ = await self._loop.create_connection(
                lambda: _ServerSide(self.transport), "127.0.0.1", self._listener.server_port
            )
        except OSError:
            self.abort()
            return
        if self.transport.is_closing():
            server.abort()
            return
        self.other = server
        self._port = server.get_extra_info("sockname")[1]
        self._listener.clients[self._port] = self
        server.write(self._early)
        self._early = b""
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Forward what the filter lets pass."""
        self.active_at = self._loop.time()
        try:
            passed = self._filter.feed(data)
            self._watch()
            if self.other is None:
                self._early += passed
                self.transport.pause_reading()  # until the server connection is open
            elif not self.other.is_closing():
                self.other.write(passed)
        except FrameError:
            self._listener.end(self, "header_size")

    def _watch(self) -> None:
        """Limit the time for headers that have begun."""
        if not self._filter.is_holding:
            self._stop_watching()
        elif self._deadline is None:
            self._deadline = self._loop.call_later(
                self._listener.header_seconds, self._listener.end, self, "header_time"
            )

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the calls and close the server's side."""
        del exc
        self._stop_watching()
        self.messages.end_all()
        self._listener.closed(self)
        self._listener.clients.pop(self._port, None)
        if self._connecting is not None:
            self._connecting.cancel()
        if self.other is not None:
            self.other.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abort()


class _ServerSide(_Side):
    def __init__(self, client: Transport) -> None:
        self.other = client

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.other is not None and not self.other.is_closing():
            self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self.other is not None:
            with contextlib.suppress(RuntimeError):
                self.other.close()
