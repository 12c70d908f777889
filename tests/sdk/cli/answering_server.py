"""Small real HTTP server with prepared responses that records its requests."""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Asked:
    """One received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class AnsweringServer:
    """Responses by path; other paths get the collector's 404. Use as a context manager."""

    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    accept_events: bool = True
    events: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, path: str, body: bytes | dict[str, Any], *, status: int = 200) -> None:
        """Prepare the response for a path."""
        self.answers[path] = (
            status,
            body if isinstance(body, bytes) else json.dumps(body).encode(),
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._record(b"")
                status, body = owner.answers.get(self.path, (404, _NOT_FOUND))
                self._send(status, body)

            def do_POST(self) -> None:
                body = self._read_body()
                self._record(body)
                status, answer = 404, _NOT_FOUND
                if self.path.endswith("/v1/events"):
                    encoding = self.headers.get("Content-Encoding", "")
                    status, answer = owner.take_events(encoding, body)
                self._send(status, answer)

            def _read_body(self) -> bytes:
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                chunks = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    chunks.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(chunks)

            def _record(self, body: bytes) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                owner.asked.append(Asked(self.command, self.path, headers, body))

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take_events(self, encoding: str, body: bytes) -> tuple[int, bytes]:
        """Accept a body of events as the collector does, or refuse it temporarily."""
        import gzip

        if not self.accept_events:
            return 503, b'{"error": {"code": "unavailable", "message": "not now", "hint": null}}'
        if encoding == "gzip":
            body = gzip.decompress(body)
        text = body.decode()
        if text.lstrip().startswith("["):
            events = json.loads(text)
        else:
            events = [json.loads(line) for line in text.splitlines() if line.strip()]
        first = len(self.events) + 1
        self.events.extend(events)
        answer = {"accepted": len(events), "first_sequence_number": first, "rejected": []}
        return 200, json.dumps(answer).encode()


_NOT_FOUND = b'{"error": {"code": "not_found", "message": "no such thing", "hint": null}}'
