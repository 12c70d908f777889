"""Responses of a forwarding target."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from tracereel_collector.otlp_out.forward.forwarder import ForwardConnection
from tracereel_collector.otlp_out.forward.target import parse_target


@pytest.mark.parametrize(("rejected", "expected"), [(0, 0), (3, 3), (-5, 0)])
def test_rejected_records_are_counted_and_never_negative(rejected: int, expected: int) -> None:
    body = ExportLogsServiceResponse()
    body.partial_success.rejected_log_records = rejected

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.SerializeToString())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        target = parse_target(f"http://127.0.0.1:{server.server_port}", "")
        connection = ForwardConnection(target, seconds=5)
        attempt = connection.post("logs", b"some", passed="x")
        connection.close()

    assert (attempt.outcome, attempt.rejected) == ("taken", expected)
