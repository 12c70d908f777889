"""OTLP over gRPC: same keys, limits and responses as OTLP over HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc
import structlog
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from tracereel_collector.auth import KeyScope
from tracereel_collector.config import Settings
from tracereel_collector.errors import (
    BadRequestError,
    CollectorError,
    ForbiddenError,
    RetryableError,
    ServiceUnavailableError,
    StartupError,
    TooSlowError,
)
from tracereel_collector.http.dependencies import Parts
from tracereel_collector.http.errors import grpc_code
from tracereel_collector.http.grpc_frames import STREAM_HEADER, MessageHeads
from tracereel_collector.http.grpc_listener import GrpcClient, GrpcListener
from tracereel_collector.http.otlp import MAX_MESSAGE, response_of
from tracereel_collector.ingest.otlp_schema import SIGNALS, Signal
from tracereel_collector.otlp_out.forward.forwarder import PATH_HEADER
from tracereel_collector.runtime.tenant_shares import TenantShares

T = TypeVar("T")

log = structlog.get_logger(__name__)

MESSAGE_SECONDS = 60.0
"""Time limit of a whole message, since gRPC returns messages only when complete."""
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_STATUS = {grpc.StatusCode.OK: 200, grpc.StatusCode.UNAVAILABLE: 503}
_OPTIONS = (
    ("grpc.max_concurrent_streams", 100),
    # Pending calls hold their headers in memory; more calls are refused.
    ("grpc.server.max_pending_requests", 1_000),
    ("grpc.server.max_pending_requests_hard_limit", 2_000),
    # Allow frequent keepalive pings, as Go exporters send them; detect dead connections.
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.server_handshake_timeout_ms", 10_000),
    # Limit what is buffered of a message before it is read: the default is megabytes per call.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 64 * 1024),
    # Decompressed by the handler, which limits the output size.
    ("grpc.per_message_decompression", 0),
)
_PIECE = 8 * 1024
"""Bytes of a compressed message that are decoded before other tasks run.

At most 8 MiB of output come from them.
"""
_GZIP = b"\x1f\x8b"
Handler = Callable[[object, Any], Awaitable[bytes]]
_SERVING = b"\x08\x01"
"""`grpc.health.v1.HealthCheckResponse` with the status SERVING: one field of one byte."""
_HEALTH_SERVICE = "grpc.health.v1.Health"


async def _check_health(_request: bytes, _context: Any) -> bytes:
    return _SERVING


async def _watch_health(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
    yield _SERVING  # it does not change before the server stops, which ends the call


_HEALTH = grpc.method_handlers_generic_handler(
    _HEALTH_SERVICE,
    {
        "Check": grpc.unary_unary_rpc_method_handler(_check_health),
        "Watch": grpc.unary_stream_rpc_method_handler(_watch_health),
    },
)
"""Health of the server, as load balancers and probes ask for it; needs no key."""


class GrpcServer:
    """gRPC server of one event loop; `together` shares the port with other processes."""

    def __init__(self, parts: Parts, settings: Settings, *, together: bool) -> None:
        self._parts = parts
        self._together = together
        self._host, self._port = settings.host, settings.grpc_port
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._address = f"{host}:{self._port}"
        self._listener = GrpcListener(parts.connection_limits)
        self._stop_seconds = settings.stop_seconds
        self._server: Any = None
        self._calls = TenantShares("grpc_calls", settings.max_connections, parts.shares)

    async def start(self) -> None:
        """Start serving; raise StartupError if the address is not available."""
        limit = ("grpc.max_receive_message_length", self._parts.bodies.max_body_bytes)
        share = ("grpc.so_reuseport", 0)
        self._server = grpc.aio.server(options=[*_OPTIONS, limit, share])
        for signal in SIGNALS:
            # As a stream, the message is read by the handler: after the key check and with a timeout.
            method = grpc.stream_unary_rpc_method_handler(self._handler(signal))
            self._server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(signal.service, {"Export": method}),)
            )
        self._server.add_generic_rpc_handlers((_HEALTH,))
        # Clients connect to the listener, which enforces limits that gRPC's server lacks.
        inner = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        try:
            await self._listener.start(
                self._host, self._port, server_port=inner, together=self._together
            )
        except OSError as error:
            raise StartupError(
                f"cannot listen on {self._address} for gRPC: {error.strerror}",
                hint="stop what uses the port, choose another with --grpc-port, or none with off",
            ) from error

    async def stop(self) -> None:
        """Finish requests in progress within the stop timeout."""
        self._listener.close()
        if self._server is not None:
            await self._server.stop(self._stop_seconds)
        self._listener.end_all()

    def _handler(self, signal: Signal) -> Handler:
        method = f"/{signal.service}/Export"
        metrics, observer = self._parts.http_metrics, self._parts.observer

        async def export(_messages: object, context: Any) -> bytes:
            started = time.perf_counter()
            code = grpc.StatusCode.CANCELLED
            headers = {
                key: value for key, value in context.invocation_metadata() if isinstance(value, str)
            }
            try:
                answer = await self._answer(signal, context, headers)
                code = answer.code if isinstance(answer, _Refusal) else grpc.StatusCode.OK
            finally:
                seconds = time.perf_counter() - started
                metrics.requests.labels(method, code.name).inc()
                metrics.seconds.labels(method).observe(seconds)
                if observer is not None:
                    observer.request_done(
                        method="gRPC",
                        route=method,
                        status=_STATUS.get(code, 400),
                        seconds=seconds,
                        headers=[(key.encode(), value.encode()) for key, value in headers.items()],
                    )
            if isinstance(answer, _Refusal):
                await context.abort(answer.code, answer.message, answer.trailers)
                raise AssertionError  # abort has ended the call
            return answer

        return export

    async def _answer(
        self, signal: Signal, context: Any, headers: dict[str, str]
    ) -> "bytes | _Refusal":
        """Return the response or a refusal.

        It raises no exception, because gRPC would keep it and all that its frames hold in memory.
        """
        try:
            return await self._receive(signal, context, headers)
        except CollectorError as error:
            return _refusal(error)
        except Exception:
            log.exception("request_failed", path=f"/{signal.service}/Export")
            return _refusal(ServiceUnavailableError("the collector failed to handle the request"))

    def _client(self, peer: str) -> GrpcClient:
        """Return the client of a call.

        The peer, such as `ipv4:127.0.0.1:5000`, is the listener's side of the proxied connection.
        """
        port = unquote(peer).rpartition(":")[2]
        client = self._listener.clients.get(int(port)) if port.isdecimal() else None
        if client is None:
            raise ForbiddenError(
                "calls are taken from the port for gRPC alone", hint=f"call {self._address}"
            )
        return client

    async def _receive(self, signal: Signal, context: Any, headers: dict[str, str]) -> bytes:
        parts, client = self._parts, self._client(context.peer())
        caller = parts.gate.admit(headers, scope=KeyScope.WRITE, peer=client.host)
        client.is_admitted = True
        tenant = caller.tenant
        stream = int(headers[STREAM_HEADER])
        with self._calls.holding(tenant):
            async with self._body(context, client.messages, stream, tenant) as data:
                parts.gate.charge(caller, size=len(data))
                passed = headers.get(PATH_HEADER, "")
                answer = await parts.accept.otlp(
                    signal, data, tenant=tenant, is_json=False, passed=passed
                )
        parts.gate.charge(caller, records=answer.records)
        return bytes(response_of(signal, answer).SerializeToString())

    @asynccontextmanager
    async def _body(
        self, context: Any, messages: MessageHeads, stream: int, tenant: str
    ) -> AsyncIterator[bytes]:
        """Yield the message of a call; its size is reserved before it is received."""
        bodies = self._parts.bodies
        deadline = asyncio.get_running_loop().time() + MESSAGE_SECONDS
        head = await _until(deadline, messages.wait_for(stream))
        if head is None:
            raise BadRequestError("the call carries no message")
        with bodies.holding(head.size, tenant=tenant):
            # gRPC's iterator would keep the message until the next garbage collection.
            message = await _until(deadline, context.read())
            if message is grpc.aio.EOF:
                raise BadRequestError("the call ends before its message does")
            if not head.is_packed:
                yield message
                return
            encoding = "gzip" if message.startswith(_GZIP) else "deflate"
            async with bodies.read(
                _pieces(message), {"content-encoding": encoding}, tenant=tenant
            ) as data:
                yield data


async def _until(deadline: float, coming: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout_at(deadline):
            return await coming
    except TimeoutError as error:
        raise TooSlowError(f"the message took longer than {MESSAGE_SECONDS:g} s") from error


async def _pieces(message: bytes) -> AsyncIterator[bytes]:
    """Yield a compressed message in pieces, so that other tasks run in between."""
    for begin in range(0, len(message), _PIECE):
        yield message[begin : begin + _PIECE]
        await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Status of a refused call."""

    code: grpc.StatusCode
    message: str
    trailers: tuple[tuple[str, bytes], ...]


def _refusal(error: CollectorError) -> _Refusal:
    """Return the gRPC status of an error, with a retry delay if it is retryable."""
    code = _CODES[grpc_code(error.status)]
    message = error.message[:MAX_MESSAGE]
    status = Status(code=code.value[0], message=message)
    if isinstance(error, RetryableError):
        delay = RetryInfo()
        delay.retry_delay.seconds = error.retry_after_seconds
        status.details.add().Pack(delay)
    return _Refusal(code, message, (("grpc-status-details-bin", status.SerializeToString()),))
