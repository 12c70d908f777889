"""ClickHouse's HTTP interface on an inherited socket: connections, answers, and an orderly end."""

import json
import os
import secrets
import selectors
import socket
import threading
import time
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass

from tracereel_collector.engine.compression import (
    Compressor,
    chosen_encoding,
    compressor,
    decompressed,
)
from tracereel_collector.engine.execute import Executor, Result
from tracereel_collector.engine.failures import (
    QUERY_IS_TOO_LARGE,
    TOO_MANY_QUERIES,
    UNKNOWN_EXCEPTION,
    QueryError,
)
from tracereel_collector.engine.http_body import Body, MemoryBudget
from tracereel_collector.engine.http_message import Head, ProtocolError, Wire
from tracereel_collector.engine.refusals import Rules
from tracereel_collector.engine.request import authenticate, read_request
from tracereel_collector.engine.settings import MIB, EngineSettings

_WORTH_COMPRESSING = 1024


@dataclass(frozen=True, slots=True)
class Backend:
    """What a request needs: who may ask, what is refused, who answers."""

    executor: Executor
    rules: Rules
    secret: str
    timezone: str
    alive: Callable[[], None]
    """Returns when the engine itself answers, raises when it does not."""


class Server:
    """A thread for each connection; statements are bounded by the executor."""

    def __init__(self, listener: socket.socket, backend: Backend, settings: EngineSettings) -> None:
        self._listener = listener
        self._backend = backend
        self._settings = settings
        self._budget = MemoryBudget(settings.spool_memory_bytes)
        self._lock = threading.Condition()
        self._idle_since: dict[socket.socket, float | None] = {}
        self._stopping = False
        self._wake_read, self._wake_write = os.pipe()
        self._acceptor = threading.Thread(target=self._accept, name="accept", daemon=True)

    def start(self) -> None:
        self._listener.setblocking(False)
        self._acceptor.start()

    def stop(self, *, seconds: float) -> bool:
        """Take no more, let running requests finish; False when some did not in time."""
        os.write(self._wake_write, b"x")
        self._acceptor.join()
        deadline = time.monotonic() + seconds
        with self._lock:
            self._stopping = True
            for connection, idle in self._idle_since.items():
                if idle is not None:
                    _shut(connection)
            while self._idle_since:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._lock.wait(left)
        return True

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._wake_read in ready:
                    return
                try:
                    connection, _ = self._listener.accept()
                except BlockingIOError:
                    continue
                except OSError:
                    # Out of descriptors: those who wait stay in the backlog.
                    time.sleep(0.05)
                    continue
                self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        # Without this a small answer waits 40 ms for the peer's acknowledgement.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            full = len(self._idle_since) >= self._settings.max_connections
            if full:
                idle = [(since, peer) for peer, since in self._idle_since.items() if since]
                if idle:
                    _shut(min(idle, key=lambda pair: pair[0])[1])
                    full = False
            if not full:
                self._idle_since[connection] = time.monotonic()
        if full:
            limit = self._settings.max_connections
            _refuse(connection, f"All {limit} connections are busy. Try again later.")
            return
        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        wire = Wire(connection)
        try:
            while self._next_request(connection, wire):
                pass
        except (ProtocolError, OSError):
            pass  # the peer is gone or does not speak HTTP: there is nobody to tell
        finally:
            with self._lock:
                self._idle_since.pop(connection, None)
                self._lock.notify_all()
            connection.close()

    def _next_request(self, connection: socket.socket, wire: Wire) -> bool:
        """Answer one request; False when the connection is done."""
        head = wire.read_head(
            first_byte_timeout=self._settings.idle_seconds, timeout=self._settings.stall_seconds
        )
        if head is None:
            return False
        with self._lock:
            if self._stopping:
                return False
            self._idle_since[connection] = None
        complete = _Exchange(head, wire, self._backend, self._settings, self._budget).answer()
        if wire.body_left:
            wire.linger(limit=64 * MIB, seconds=2.0)
            return False
        with self._lock:
            self._idle_since[connection] = time.monotonic()
            return complete and head.keep_alive and not self._stopping


class _Exchange:
    """One request and its answer."""

    def __init__(
        self,
        head: Head,
        wire: Wire,
        backend: Backend,
        settings: EngineSettings,
        budget: MemoryBudget,
    ) -> None:
        self._head = head
        self._wire = wire
        self._backend = backend
        self._settings = settings
        self._budget = budget
        self._begun = False

    def answer(self) -> bool:
        """False when the answer broke off and the connection must not be used again."""
        try:
            if self._head.path in {"/ping", "/health"}:
                self._ping()
            else:
                self._answer_query()
        except QueryError as error:
            if self._begun:
                return False
            self._fail(error)
        except (ProtocolError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - one bad request must not end the server
            if self._begun:
                return False
            self._fail(QueryError(UNKNOWN_EXCEPTION, f"{type(error).__name__}: {error}"))
        return True

    def _ping(self) -> None:
        if self._head.path == "/health":
            self._backend.alive()
        for _ in self._wire.body(self._head):
            pass
        self._wire.answer(200, {"Content-Type": "text/plain; charset=UTF-8"}, b"Ok.\n")

    def _answer_query(self) -> None:
        head, settings = self._head, self._settings
        # The body is framed even when it is not wanted: the next request starts behind it.
        chunks = self._wire.body(head)
        if head.method not in {"GET", "POST"}:
            self._wire.body_left = True
            raise QueryError(36, f"Method {head.method} is not answered; GET and POST are.")
        length = head.header("content-length")
        if length.isdigit() and int(length) > settings.max_body_bytes:
            self._wire.body_left = True
            raise QueryError(
                QUERY_IS_TOO_LARGE,
                f"The body has {length} bytes; up to {settings.max_body_bytes} are accepted.",
            )
        try:
            authenticate(head, self._backend.secret)
        except QueryError:
            self._wire.body_left = length not in {"", "0"} or bool(head.header("transfer-encoding"))
            raise
        encoding = head.header("content-encoding").lower()
        body = Body.receive(
            decompressed(encoding, chunks), self._budget, limit=settings.max_body_bytes
        )
        try:
            request = read_request(
                head,
                body,
                rules=self._backend.rules,
                max_sql=settings.max_sql_bytes,
                database=settings.database,
            )
            with self._backend.executor.run(request, body) as result:
                self._send(result)
        finally:
            body.close()

    def _send(self, result: Result) -> None:
        headers = self._headers()
        headers["X-ClickHouse-Summary"] = json.dumps(result.summary)
        if result.format is not None:
            headers["X-ClickHouse-Format"] = result.format
        headers["Content-Type"] = _content_type(result.format)
        encoding = None
        if self._head.query.get("enable_http_compression") == "1" and (
            result.more is not None or len(result.body) >= _WORTH_COMPRESSING
        ):
            encoding = chosen_encoding(self._head.header("accept-encoding"))
        squeeze = _Plain() if encoding is None else compressor(encoding)
        if encoding is not None:
            headers["Content-Encoding"] = encoding
        self._begun = True
        if result.more is None:
            self._wire.answer(200, headers, squeeze.feed(result.body) + squeeze.finish())
        else:
            self._send_stream(headers, result.body, result.more, squeeze)

    def _send_stream(
        self, headers: dict[str, str], first: bytes, more: Generator[bytes], squeeze: Compressor
    ) -> None:
        tag = secrets.token_hex(8)
        headers["X-ClickHouse-Exception-Tag"] = tag
        try:
            self._wire.begin_chunks(200, headers)
            self._wire.chunk(squeeze.feed(first))
            for block in more:
                self._wire.chunk(squeeze.feed(block))
        except QueryError as error:
            # The status is out already: the tag, and the missing last chunk, tell the client.
            text = error.text.encode()
            marked = b"\r\n__exception__\r\n%b\r\n%b\n%d %b\r\n__exception__\r\n" % (
                tag.encode(),
                text,
                len(text) + 1,
                tag.encode(),
            )
            self._wire.chunk(squeeze.feed(marked) + squeeze.finish())
            raise
        finally:
            more.close()
        self._wire.chunk(squeeze.finish())
        self._wire.end_chunks()

    def _fail(self, error: QueryError) -> None:
        headers = self._headers()
        headers["X-ClickHouse-Exception-Code"] = str(error.code)
        headers["Content-Type"] = "text/plain; charset=UTF-8"
        if self._wire.body_left:
            headers["Connection"] = "close"
        self._wire.answer(error.status, headers, f"{error.text}\n".encode("utf-8", "replace"))

    def _headers(self) -> dict[str, str]:
        return {
            "X-ClickHouse-Server-Display-Name": "tracereel",
            "X-ClickHouse-Query-Id": self._head.query.get("query_id") or str(uuid.uuid4()),
            "X-ClickHouse-Timezone": self._backend.timezone,
        }


class _Plain:
    def feed(self, data: bytes) -> bytes:
        return data

    def finish(self) -> bytes:
        return b""


def _content_type(result_format: str | None) -> str:
    name = (result_format or "").lower()
    if name.startswith("json"):
        return "application/json; charset=UTF-8"
    if name.startswith(("tabseparated", "tsv")):
        return "text/tab-separated-values; charset=UTF-8"
    if name.startswith("csv"):
        return "text/csv; charset=UTF-8"
    return "application/octet-stream" if name else "text/plain; charset=UTF-8"


def _refuse(connection: socket.socket, message: str) -> None:
    error = QueryError(TOO_MANY_QUERIES, message)
    headers = {"X-ClickHouse-Exception-Code": str(error.code), "Connection": "close"}
    try:
        connection.settimeout(1.0)
        Wire(connection).answer(error.status, headers, f"{error.text}\n".encode())
    except OSError:
        pass  # it did not wait for the answer
    finally:
        connection.close()


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # closed by the peer already
