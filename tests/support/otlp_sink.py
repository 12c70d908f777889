"""Small HTTP server with OTLP's `POST /v1/traces` that can inject faults."""

import gzip
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass
class Answers:
    """Response behaviour of the sink; may be changed while it runs."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/x-protobuf"
    refused: int = 0
    max_spans: int = 1_000_000
    body: bytes | None = None
    hang: bool = False


class OtlpSink:
    """Server as a context manager. Received events and heartbeats are discarded."""

    def __init__(self, port: int = 0, *, tls: ssl.SSLContext | None = None) -> None:
        self.answers = Answers()
        self.requests = 0
        self.connections = 0
        self.path = ""
        self.headers: dict[str, str] = {}
        self.client_certificate = False
        self.spans: list[Any] = []
        self.logs: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self._release = threading.Event()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                sink.connections += 1

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path.endswith("/v1/traces"):
                    sink._take(self, body)
                else:
                    if self.path == "/v1/logs":
                        sink._keep_logs(body)
                    lines = body.count(b"\n")
                    sink._answer(self, 200, "application/json", b'{"accepted":%d}' % lines)

            def do_GET(self) -> None:
                sink._answer(self, 200, "text/plain", b"hello")

            def log_message(self, *args: object) -> None:
                """Log nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Ignore clients that were killed during a request."""

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = int(self._server.server_address[1])
        if tls is not None:
            # Handshakes run in the serving threads, not in the accepting one.
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._release.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def attributes(self, name: str) -> dict[str, Any]:
        """Return a span's attributes as strings."""
        (span,) = [each for each in self.spans if each.name == name]
        return {each.key: each.value.string_value for each in span.attributes}

    def _keep_logs(self, body: bytes) -> None:
        try:
            request = ExportLogsServiceRequest.FromString(body)
        except DecodeError:
            return  # JSON or compressed bodies, which no test inspects
        self.logs += [
            record
            for each in request.resource_logs
            for scope in each.scope_logs
            for record in scope.log_records
        ]

    def _take(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.requests += 1
        self.path = handler.path
        if isinstance(handler.connection, ssl.SSLSocket):
            self.client_certificate = bool(handler.connection.getpeercert())
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        answers = self.answers
        if answers.hang:
            self._release.wait()
            handler.close_connection = True
            return
        if handler.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        request = ExportTraceServiceRequest.FromString(body)
        found = []
        for each in request.resource_spans:
            self.resources.append(
                {pair.key: pair.value.string_value for pair in each.resource.attributes}
            )
            found += [span for scope in each.scope_spans for span in scope.spans]
        status = answers.status if len(found) <= answers.max_spans else 413
        response = ExportTraceServiceResponse()
        if status == 200:
            self.spans += found
            response.partial_success.rejected_spans = answers.refused
        body = response.SerializeToString() if answers.body is None else answers.body
        self._answer(handler, status, answers.content_type, body)

    def _answer(self, handler: BaseHTTPRequestHandler, status: int, kind: str, body: bytes) -> None:
        handler.send_response(status)
        handler.send_header("content-type", kind)
        for name, value in self.answers.headers.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
