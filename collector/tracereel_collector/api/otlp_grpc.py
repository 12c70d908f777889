"""OTLP over gRPC: the same line, keys, limits and answers as over HTTP, on a port of its own."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import grpc
import structlog
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from tracereel_collector.api.errors import grpc_code
from tracereel_collector.api.otlp_answers import MAX_MESSAGE, response_of
from tracereel_collector.api.parts import Parts
from tracereel_collector.auth import Scope
from tracereel_collector.errors import (
    BadRequestError,
    CollectorError,
    RetryableError,
    StartupError,
    ThrottledError,
    UnavailableError,
)
from tracereel_collector.forward.post import PATH_HEADER
from tracereel_collector.ingest.body import PAUSE_SECONDS
from tracereel_collector.ingest.otlp_schema import SIGNALS, Signal

log = structlog.get_logger(__name__)

MESSAGE_SECONDS = 60.0
"""gRPC hands a message over whole, so this is the time for all of it."""
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_STATUS = {grpc.StatusCode.OK: 200, grpc.StatusCode.UNAVAILABLE: 503}
_OPTIONS = (
    ("grpc.max_concurrent_streams", 1_000),
    # Exporters that ping often, as Go's do, are not sent away for it; dead ones are found out.
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.server_handshake_timeout_ms", 10_000),
)
RECEIVING = 32
"""Messages that may be on their way in at once; the others wait."""
Handler = Callable[[AsyncIterator[bytes], Any], Awaitable[bytes]]


class GrpcDoor:
    """The gRPC server; it lives in the event loop that starts it."""

    def __init__(
        self,
        parts: Parts,
        *,
        host: str,
        port: int,
        stop_seconds: float,
        together: bool = False,
    ) -> None:
        self._parts = parts
        self._together = together
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._stop_seconds = stop_seconds
        self._server: Any = None
        self._slots = asyncio.Semaphore(RECEIVING)

    async def start(self) -> None:
        """Begin to serve.

        Raises:
            StartupError: the address cannot be had.
        """
        limit = ("grpc.max_receive_message_length", self._parts.bodies.max_body_bytes)
        # Unless it is meant, a port that another process has is an error, not something to share.
        share = ("grpc.so_reuseport", int(self._together))
        self._server = grpc.aio.server(options=[*_OPTIONS, limit, share])
        for signal in SIGNALS:
            # Reading the one message ourselves lets keys be checked before it, and bounds its time.
            method = grpc.stream_unary_rpc_method_handler(self._handler(signal))
            self._server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(signal.service, {"Export": method}),)
            )
        try:
            self._server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise StartupError(
                f"cannot listen on {self._address} for gRPC",
                hint="stop what uses the port, choose another with --grpc-port, or none with off",
            ) from error
        await self._server.start()

    async def stop(self) -> None:
        """Let requests under way finish, within the time for an orderly stop."""
        if self._server is not None:
            await self._server.stop(self._stop_seconds)

    def _handler(self, signal: Signal) -> Handler:
        method = f"/{signal.service}/Export"
        metrics = self._parts.http_metrics

        async def export(messages: AsyncIterator[bytes], context: Any) -> bytes:
            started = time.perf_counter()
            code = grpc.StatusCode.CANCELLED
            try:
                answer = await self._receive(signal, messages, context)
                code = grpc.StatusCode.OK
                return answer
            except CollectorError as error:
                code = _CODES[grpc_code(error.status)]
                await _refuse(context, code, error)
            except Exception as error:
                log.exception("request_failed", path=method)
                code = grpc.StatusCode.UNAVAILABLE
                failure = UnavailableError("the collector failed to handle the request")
                failure.__cause__ = error
                await _refuse(context, code, failure)
            finally:
                metrics.requests.labels(method, code.name).inc()
                seconds = time.perf_counter() - started
                metrics.seconds.labels(method).observe(seconds)
                if (observer := self._parts.observer) is not None:
                    observer.request_done(
                        method="gRPC",
                        route=method,
                        status=_STATUS.get(code, 400),
                        seconds=seconds,
                        headers=[
                            (key.encode(), value.encode())
                            for key, value in context.invocation_metadata()
                            if isinstance(value, str)
                        ],
                    )
            raise AssertionError  # refusing has ended the call

        return export

    async def _receive(self, signal: Signal, messages: AsyncIterator[bytes], context: Any) -> bytes:
        parts = self._parts
        headers = {
            key: value for key, value in context.invocation_metadata() if isinstance(value, str)
        }
        caller = parts.gate.admit(headers, scope=Scope.WRITE, peer=_host_of(context.peer()))
        arrived = OneMessage(messages, self._slots)
        # gRPC has decompressed the message already, and held it to the limit.
        async with parts.bodies.read(arrived, {}, pause_seconds=MESSAGE_SECONDS) as data:
            if not arrived.came:
                raise BadRequestError("the call carries no message")
            parts.gate.charge(caller, size=len(data))
            passed = headers.get(PATH_HEADER, "")
            answer = await parts.accept.otlp(
                signal, data, tenant=caller.tenant, is_json=False, passed=passed
            )
        parts.gate.charge(caller, records=answer.records)
        return bytes(response_of(signal, answer).SerializeToString())


def _host_of(peer: str) -> str:
    """The address in gRPC's `ipv4:127.0.0.1:5000` or `ipv6:%5B::1%5D:5000`."""
    kind, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else peer


class OneMessage:
    """The first message of a call and no more; nothing where it was cut off or too large.

    What has come of a message so far is held where we cannot count it: only so many may be coming.
    """

    def __init__(
        self,
        messages: AsyncIterator[bytes],
        slots: asyncio.Semaphore,
        *,
        wait_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._messages = messages
        self._slots = slots
        self._wait_seconds = wait_seconds
        self.came = False

    def __aiter__(self) -> "OneMessage":
        return self

    async def __anext__(self) -> bytes:
        if self.came:
            raise StopAsyncIteration
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._slots.acquire()
        except TimeoutError as error:
            raise ThrottledError("too many messages come at once", hint="try again") from error
        try:
            message = await anext(self._messages)
        finally:
            self._slots.release()
        self.came = True
        return message


async def _refuse(context: Any, code: grpc.StatusCode, error: CollectorError) -> None:
    """End the call with a status; one worth trying again says when."""
    message = error.message[:MAX_MESSAGE]
    status = Status(code=code.value[0], message=message)
    if isinstance(error, RetryableError):
        delay = RetryInfo()
        delay.retry_delay.seconds = error.retry_after_seconds
        status.details.add().Pack(delay)
    await context.abort(code, message, (("grpc-status-details-bin", status.SerializeToString()),))
