"""Small HTTP server with `POST /v1/events` and `/v1/heartbeats` that can inject faults.

It drops duplicates by emitter and number as the collector does, and keeps accepted events in order.
"""

import gzip
import json
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import zstandard

Event = dict[str, Any]


@dataclass
class Request:
    """One received POST."""

    path: str
    headers: dict[str, str]
    lines: list[bytes]


@dataclass
class Behaviour:
    """Response behaviour of the sink; may be changed while it runs."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Sent instead of a proper response."""
    hang: bool = False
    drop_connection: bool = False
    poison: Callable[[Event], bool] = lambda _event: False
    """Bodies with such an event are refused as a whole with 400."""
    reject: Callable[[Event], bool] = lambda _event: False
    """Such events are listed in `rejected`; the rest is accepted."""
    max_bytes: int = 64 * 1024 * 1024
    heartbeat_status: int = 200
    key_state: str | None = None
    """Response to key requests; None: the route does not exist."""
    key_state_delay: float = 0.0
    """Seconds until that response."""


class IngestSink:
    """Server as a context manager. `port` may be given to reuse an address."""

    def __init__(self, port: int = 0, *, tls: ssl.SSLContext | None = None) -> None:
        self.behaviour = Behaviour()
        self.requests: list[Request] = []
        self.events: list[Event] = []
        self.heartbeats: list[dict[str, Any]] = []
        self.duplicates = 0
        self.connections = 0
        self._lock = threading.Lock()
        self._high: dict[str, int] = {}
        self._release = threading.Event()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Separate writes of headers and body would wait for a delayed ACK (40 ms).
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                sink.connections += 1

            def do_POST(self) -> None:
                sink._handle(self)

            def do_GET(self) -> None:
                sink._identify(self)

            def log_message(self, *args: object) -> None:
                """Log nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Ignore clients that were killed during a request."""

        self._server = Server(("127.0.0.1", port), Handler)
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            # TLS handshakes run in the connection's thread, so a stalled client blocks no other.
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def of_type(self, event_type: str) -> list[Event]:
        return [event for event in self.events if event["event_type"] == event_type]

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", "0")))
        behaviour = self.behaviour
        if behaviour.drop_connection:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        if behaviour.hang:
            self._release.wait()
            handler.close_connection = True
            return
        raw_size = len(body)
        if handler.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        elif handler.headers.get("content-encoding") == "zstd":
            body = zstandard.ZstdDecompressor().decompress(body)
        lines = [line for line in body.split(b"\n") if line]
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._lock:
            if handler.path.endswith("/v1/heartbeats"):
                status, answer = self._hear(behaviour, body)
            else:
                self.requests.append(Request(handler.path, headers, lines))
                status, answer = self._answer(behaviour, lines, raw_size)
        handler.send_response(status)
        for name, value in behaviour.headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def _identify(self, handler: BaseHTTPRequestHandler) -> None:
        behaviour = self.behaviour
        self._release.wait(behaviour.key_state_delay)
        status, answer = 404, _error("not found")
        if behaviour.key_state is not None:
            said = {"tenant": "acme", "key": {"state": behaviour.key_state}}
            status, answer = 200, json.dumps(said).encode()
        handler.send_response(status)
        handler.send_header("content-length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def _hear(self, behaviour: Behaviour, body: bytes) -> tuple[int, bytes]:
        said = json.loads(body)
        self.heartbeats += said
        if behaviour.heartbeat_status != 200:
            return behaviour.heartbeat_status, _error("no heartbeats here")
        return 200, json.dumps({"accepted": len(said), "rejected": []}).encode()

    def _answer(self, behaviour: Behaviour, lines: list[bytes], raw_size: int) -> tuple[int, bytes]:
        if behaviour.body is not None:
            return behaviour.status, behaviour.body
        if behaviour.status != 200:
            return behaviour.status, _error(f"told to say {behaviour.status}")
        if raw_size > behaviour.max_bytes:
            return 413, _error("too large")
        events = [json.loads(line) for line in lines]
        if any(behaviour.poison(event) for event in events):
            return 400, _error("a line is bad")
        rejected, accepted, duplicates = [], 0, 0
        for index, event in enumerate(events):
            if behaviour.reject(event):
                entry = {"index": index, "event_id": event["event_id"], "reason": "told to"}
                rejected.append(entry)
            elif event["emitter_seq"] <= self._high.get(event["emitter_id"], 0):
                duplicates += 1
            else:
                self._high[event["emitter_id"]] = event["emitter_seq"]
                self.events.append(event)
                accepted += 1
        self.duplicates += duplicates
        answer = {
            "accepted": accepted,
            "duplicates": duplicates,
            "first_sequence_number": 1 if accepted else None,
            "rejected": rejected,
        }
        return 200, json.dumps(answer).encode()


def _error(message: str) -> bytes:
    return json.dumps({"error": {"code": "told", "message": message, "hint": None}}).encode()
