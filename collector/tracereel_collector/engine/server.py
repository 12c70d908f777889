"""ClickHouse's HTTP interface on an inherited socket: connections, responses, shutdown."""

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

from tracereel_collector.engine.compression import decompressed
from tracereel_collector.engine.execute import Executor, StatementResult
from tracereel_collector.engine.failures import Code, QueryError
from tracereel_collector.engine.http_body import MemoryBudget, RequestBody
from tracereel_collector.engine.http_message import ProtocolError, RequestHead, Wire
from tracereel_collector.engine.peers import Peer, Peers
from tracereel_collector.engine.refusals import Rules
from tracereel_collector.engine.request import is_authentic, read_request
from tracereel_collector.engine.settings import MIB, EngineSettings


@dataclass(frozen=True, slots=True)
class Backend:
    """Dependencies of a request: executor, rules, secret and health check."""

    executor: Executor
    rules: Rules
    secret: str
    timezone: str
    alive: Callable[[], None]
    """Health check; raises if the engine does not respond."""


class Server:
    """HTTP server with a thread per connection; the executor limits statements."""

    def __init__(self, listener: socket.socket, backend: Backend, settings: EngineSettings) -> None:
        self.backend = backend
        self.settings = settings
        self.budget = MemoryBudget(settings.spool_memory_bytes)
        self._listener = listener
        self._peers = Peers(
            max_known=settings.max_connections, max_unknown=settings.max_unknown_connections
        )
        self._wake_read, self._wake_write = os.pipe()
        self._acceptor = threading.Thread(target=self._accept, name="accept", daemon=True)

    def start(self) -> None:
        """Accept connections in a thread."""
        self._listener.setblocking(False)
        self._acceptor.start()

    def stop(self, *, seconds: float) -> bool:
        """Accept no more connections, wait for running requests; return False on timeout."""
        os.write(self._wake_write, b"x")
        self._acceptor.join()
        return self._peers.stop(seconds=seconds)

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
                    # Out of descriptors: waiting connections stay in the backlog.
                    time.sleep(0.05)
                    continue
                self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        connection.setblocking(True)
        # Without this a small response waits 40 ms for the peer's TCP acknowledgement.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = self._peers.add(connection)
        threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: Peer) -> None:
        wire = Wire(peer.connection)
        try:
            while self._next_request(peer, wire):
                pass
        except (ProtocolError, OSError):
            pass  # the peer has closed or sent malformed HTTP
        finally:
            self._peers.remove(peer)
            peer.connection.close()

    def _next_request(self, peer: Peer, wire: Wire) -> bool:
        """Handle one request; return False if the connection must close."""
        settings = self.settings
        wait = settings.idle_seconds if peer.known else settings.head_seconds
        head = wire.read_head(first_byte_seconds=wait, seconds=settings.head_seconds)
        if head is None:
            return False
        wire.wait_at_most(settings.stall_seconds)
        known = is_authentic(head, self.backend.secret)
        exchange = _Exchange(self, head, wire, known=known)
        if not self._peers.begin(peer, known=known):
            return False
        if known and not self._peers.has_room(peer):
            exchange.refuse()
            return False
        complete = exchange.answer()
        if wire.body_left:
            limit, seconds = (64 * MIB, 10.0) if known else (MIB, 1.0)
            wire.linger(limit=limit, seconds=seconds)
            return False
        return self._peers.end_request(peer) and complete and head.keep_alive


class _Exchange:
    """One request and its response."""

    def __init__(self, server: Server, head: RequestHead, wire: Wire, *, known: bool) -> None:
        self._backend = server.backend
        self._settings = server.settings
        self._budget = server.budget
        self._head = head
        self._wire = wire
        self._known = known
        self._begun = False

    def answer(self) -> bool:
        """Send the response; return False if it broke off and the connection must close."""
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
            self._fail(QueryError(Code.UNKNOWN_EXCEPTION, f"{type(error).__name__}: {error}"))
        return True

    def refuse(self) -> None:
        """Refuse a request because there are too many connections."""
        message = f"All {self._settings.max_connections} connections are busy. Try again later."
        self._wire.wait_at_most(1.0)
        self._wire.body_left = True
        self._fail(QueryError(Code.TOO_MANY_SIMULTANEOUS_QUERIES, message))

    def _ping(self) -> None:
        if self._head.path == "/health":
            self._demand_secret()
            self._backend.alive()
        headers = {"Content-Type": "text/plain; charset=UTF-8"}
        if self._known:
            for _ in self._wire.body(self._head):
                pass
        elif self._head.has_body:
            self._wire.body_left = True
            headers["Connection"] = "close"
        self._wire.answer(200, headers, b"Ok.\n")

    def _demand_secret(self) -> None:
        """Raise QueryError if the request has no secret, before its body is read."""
        if not self._known:
            self._wire.body_left = self._head.has_body
            raise QueryError(
                Code.AUTHENTICATION_FAILED,
                "Authentication failed: the password is in engine.secret of the store directory.",
            )

    def _answer_query(self) -> None:
        head, settings = self._head, self._settings
        self._demand_secret()
        # The body is framed even if it is not used: the next request starts after it.
        chunks = self._wire.body(head)
        if head.method not in {"GET", "POST"}:
            self._wire.body_left = True
            raise QueryError(
                Code.BAD_ARGUMENTS, f"Method {head.method} is not answered; GET and POST are."
            )
        length = head.header("content-length")
        if length.isdigit() and int(length) > settings.max_body_bytes:
            self._wire.body_left = True
            raise QueryError(
                Code.QUERY_IS_TOO_LARGE,
                f"The body has {length} bytes; up to {settings.max_body_bytes} are accepted.",
            )
        encoding = head.header("content-encoding").lower()
        body = RequestBody.receive(
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

    def _send(self, result: StatementResult) -> None:
        headers = self._headers()
        headers["X-ClickHouse-Summary"] = json.dumps(result.summary)
        if result.format is not None:
            headers["X-ClickHouse-Format"] = result.format
        headers["Content-Type"] = _content_type(result.format)
        self._begun = True
        if result.more is None:
            self._wire.answer(200, headers, result.body)
        else:
            self._send_stream(headers, result.body, result.more)

    def _send_stream(self, headers: dict[str, str], first: bytes, more: Generator[bytes]) -> None:
        tag = secrets.token_hex(8)
        headers["X-ClickHouse-Exception-Tag"] = tag
        try:
            self._wire.begin_chunks(200, headers)
            self._wire.chunk(first)
            for block in more:
                self._wire.chunk(block)
        except QueryError as error:
            # The status is already sent: the tag and the missing last chunk signal the error.
            text = error.text.encode()
            self._wire.chunk(
                b"\r\n__exception__\r\n%b\r\n%b\n%d %b\r\n__exception__\r\n"
                % (tag.encode(), text, len(text) + 1, tag.encode())
            )
            raise
        finally:
            more.close()
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


def _content_type(result_format: str | None) -> str:
    name = (result_format or "").lower()
    if name.startswith("json"):
        return "application/json; charset=UTF-8"
    if name.startswith(("tabseparated", "tsv")):
        return "text/tab-separated-values; charset=UTF-8"
    if name.startswith("csv"):
        return "text/csv; charset=UTF-8"
    return "application/octet-stream" if name else "text/plain; charset=UTF-8"
