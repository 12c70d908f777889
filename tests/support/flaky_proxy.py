"""HTTP proxy in front of ClickHouse that injects faults of networks and servers."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = (
    *("refuse", "drop_before", "drop_after", "cut", "slow"),
    *("readonly", "no_space", "no_memory", "too_many_parts", "wrong_password", "strange"),
)
"""Faults: 503; disconnect before forwarding, after the response, or within it; slow response;
and ClickHouse errors: read-only, disk full, out of memory, too many parts, wrong password, unknown."""
_ANSWERS = {
    "readonly": (242, "Table is in readonly mode. (TABLE_IS_READ_ONLY)"),
    "no_space": (243, "Cannot reserve 1.00 MiB, not enough space. (NOT_ENOUGH_SPACE)"),
    "too_many_parts": (
        252,
        "Too many parts (3001). Merges are slower than inserts. (TOO_MANY_PARTS)",
    ),
    "wrong_password": (
        516,
        "tracereel: Authentication failed: password is incorrect. (AUTHENTICATION_FAILED)",
    ),
    "strange": (49, "Bad cast from type A to type B. (LOGICAL_ERROR)"),
    "no_memory": (241, "Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)"),
}


class FlakyProxy:
    """Proxy with faults: `fault` selects what happens to inserts, `away` blocks everything."""

    def __init__(self, host, port):
        self.upstream = (host, port)
        self.fault = None
        self.left = 0
        self.away = False
        self.poison = None
        """Inserts with these bytes always get an unknown error."""
        self.seen = []
        """Faults applied to inserts, in order."""
        self._lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                proxy.handle(self)

            def do_GET(self):
                proxy.handle(self)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def fail(self, fault, times=1):
        """Apply this fault to the next inserts."""
        assert fault in FAULTS
        with self._lock:
            self.fault, self.left = fault, times

    def _fault_for(self, is_insert):
        with self._lock:
            if self.away:
                return "drop_before"
            if not is_insert:
                return None
            fault = self.fault if self.left else None
            self.left = max(0, self.left - 1)
            self.seen.append(fault or "passed")
            return fault

    def handle(self, request):
        body = _read_body(request)
        is_insert = b"INSERT INTO" in body[:200] and b"schema_migrations" not in body[:200]
        fault = self._fault_for(is_insert)
        if is_insert and self.poison is not None and self.poison in body:
            fault = "strange"
        if fault == "drop_before":
            _hang_up(request)
        elif fault == "refuse":
            _answer(request, 503, {}, b"overloaded")
        elif fault in _ANSWERS:
            code, message = _ANSWERS[fault]
            text = f"Code: {code}. DB::Exception: {message}".encode()
            _answer(request, 500, {"X-ClickHouse-Exception-Code": str(code)}, text)
        else:
            self._pass_on(request, body, fault)

    def _pass_on(self, request, body, fault):
        upstream = http.client.HTTPConnection(*self.upstream, timeout=60)
        try:
            hop = {"host", "transfer-encoding", "content-length", "connection"}
            headers = {k: v for k, v in request.headers.items() if k.lower() not in hop}
            upstream.request(request.command, request.path, body, headers)
            response = upstream.getresponse()
            given = {k: v for k, v in response.getheaders() if k.lower() not in hop}
            if fault is None and response.chunked:
                _stream(request, response, given)
                return
            data = response.read()
        except (OSError, http.client.HTTPException):
            _hang_up(request)
            return
        finally:
            upstream.close()
        if fault == "drop_after":
            _hang_up(request)
        elif fault == "cut":
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\nhalf of an ans")
            _hang_up(request)
        elif fault == "slow":
            _answer(request, response.status, given, data, piece=1)
        else:
            _answer(request, response.status, given, data)


def _read_body(request):
    if request.headers.get("Transfer-Encoding", "").lower() == "chunked":
        body = b""
        while size := int(request.rfile.readline().split(b";")[0], 16):
            body += request.rfile.read(size)
            request.rfile.readline()
        request.rfile.readline()
        return body
    return request.rfile.read(int(request.headers.get("Content-Length") or 0))


def _answer(request, status, headers, data, *, piece=None):
    head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    message = head.encode() + f"Content-Length: {len(data)}\r\n\r\n".encode() + data
    step = piece or len(message)
    try:
        for start in range(0, len(message), step):
            request.wfile.write(message[start : start + step])
            request.wfile.flush()
    except OSError:
        request.close_connection = True


def _stream(request, response, headers):
    head = f"HTTP/1.1 {response.status} X\r\n" + "".join(
        f"{k}: {v}\r\n" for k, v in headers.items()
    )
    request.wfile.write(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
    while piece := response.read1(1 << 16):
        request.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    request.wfile.write(b"0\r\n\r\n")


def _hang_up(request):
    request.close_connection = True
