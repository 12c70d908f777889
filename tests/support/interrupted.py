"""Senders with a key that abort: within a body, during its processing, repeatedly."""

import contextlib
import gzip
import socket
from urllib.parse import urlsplit

import grpc

from tests.support import http2
from tests.support.small_objects import field

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
AT_WORK_SECONDS = 0.5
"""Approximate time for a large message to arrive, so that a cancel hits its check."""

TINY = 24
"""Minimum frame size that gRPC does not join to the previous one."""


def spans(count, size):
    """Return a request of so many spans without ids and so many bytes."""
    padding = size // count - 10
    return field(1, field(2, field(2, field(5, b"x" * padding)) * count))


class Interrupted:
    """Bodies for one collector; each method aborts on its own connection."""

    def __init__(self, collector, key, *, count, size):
        self._collector = collector
        self._key = key
        self._body = spans(count, size)
        # Not a protobuf tag: refused once the body is complete.
        self._packed = gzip.compress(b"\x07" * size, 1)

    def grpc_while_it_is_checked(self, *, rounds=24):
        """Cancel calls some time after their message was sent."""
        target = f"127.0.0.1:{self._collector.grpc_port}"
        with grpc.insecure_channel(target, OPTIONS) as channel:
            export = channel.unary_unary(TRACES)
            for _ in range(rounds):
                call = export.future(self._body, metadata=(("x-api-key", self._key),))
                with contextlib.suppress(grpc.RpcError, grpc.FutureTimeoutError):
                    call.result(timeout=AT_WORK_SECONDS)
                call.cancel()

    def grpc_right_after_the_message(self, *, rounds=24):
        """Cancel calls with the last byte of their message."""
        self._cut_calls(http2.message(self._body), rounds)

    def grpc_in_the_middle(self, *, rounds=8):
        """Cancel calls before the last byte of their message."""
        self._cut_calls(http2.message(self._body)[:-1], rounds)

    def grpc_stalled(self, *, calls=12):
        """Open calls that never send the last byte, all at once."""
        with self._calls() as connection:
            for _ in range(calls):
                connection.send(connection.begin(), http2.message(self._body)[:-1])

    def grpc_in_tiny_frames(self):
        """Send a message in frames that take more memory than their data."""
        with self._calls() as connection:
            connection.send(connection.begin(), http2.message(self._body)[:-1], piece=TINY)

    def grpc_packed_at_once(self, *, calls=12):
        """Send small compressed messages that become large at the same moment."""
        message = http2.message(self._packed, is_packed=True)
        encoding = (b"grpc-encoding", b"gzip")
        with self._calls(encoding) as connection:
            streams = [connection.begin() for _ in range(calls)]
            for stream in streams:
                connection.send(stream, message, is_last=True)
            for stream in streams:
                connection.wait(stream)

    def http_in_the_middle(self, *, rounds=8):
        """Disconnect before the last byte of the body."""
        self._cut_requests(self._body[:-1], rounds)

    def http_while_it_is_checked(self, *, rounds=8):
        """Disconnect right after the body."""
        self._cut_requests(self._body, rounds, cut=0)

    def http_packed(self, *, rounds=8):
        """Disconnect before the last byte of a small compressed body."""
        self._cut_requests(self._packed[:-1], rounds, headers="Content-Encoding: gzip\r\n")

    def _calls(self, *headers):
        key = (b"x-api-key", self._key.encode())
        return http2.Calls(self._collector.grpc_port, TRACES.encode(), key, *headers)

    def _cut_calls(self, data, rounds):
        with self._calls() as connection:
            for _ in range(rounds):
                stream = connection.begin()
                connection.send(stream, data)
                connection.cancel(stream)

    def _cut_requests(self, data, rounds, *, headers="", cut=1):
        url = urlsplit(self._collector.url)
        head = (
            f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nx-api-key: {self._key}\r\n"
            f"Content-Type: application/x-protobuf\r\n{headers}"
            f"Content-Length: {len(data) + cut}\r\n\r\n"
        )
        for _ in range(rounds):
            with (
                contextlib.suppress(OSError),
                socket.create_connection((url.hostname, url.port), timeout=60) as connection,
            ):
                connection.sendall(head.encode() + data)
