"""ClickHouse store over clickhouse-connect, for the embedded engine and for a server."""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote, urlsplit

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, DatabaseError
from clickhouse_connect.driver.httputil import get_pool_manager_options
from urllib3 import PoolManager
from urllib3.exceptions import HTTPError

from tracereel_collector.errors import (
    PermanentError,
    StartupError,
    StoreUnavailableError,
    TooMuchAtOnceError,
    UnknownRefusalError,
)
from tracereel_collector.model import Kind, QueuedBody
from tracereel_collector.store import settings as sent
from tracereel_collector.store.bodies import canonical, messages_of_requests, rows_of_events
from tracereel_collector.store.error_codes import (
    ACCESS_DENIED,
    BAD_ARGUMENTS,
    DATA_ERRORS,
    ID_IN_USE,
    INVALID_PROTOBUF,
    MEMORY_LIMIT,
    TEMPORARY_ERRORS,
    UNFINISHED,
)
from tracereel_collector.store.otlp_types import LOGS_SCHEMA, METRICS_SCHEMA, TRACES_SCHEMA
from tracereel_collector.store.sql import query

_NUMBERED = {
    Kind.EVENTS: ("agent_events", "sequence_number", "ingested_at"),
    Kind.SPANS: ("otel_spans", "SequenceNumber", "IngestedAt"),
    Kind.LOGS: ("otel_logs", "SequenceNumber", "IngestedAt"),
}
"""Kinds with one row per record: table, number column, arrival column."""
_LOOKED_UP = 4_000
"""Numbers per lookup: a server accepts parameters of up to 128 KiB."""
_PROTOBUF = {
    "format_schema_source": "string",
    "format_schema_message_name": "Body",
    "input_format_protobuf_oneof_presence": 1,
    # Lists and maps in attributes become JSON text, in which slashes are not escaped.
    "output_format_json_escape_forward_slashes": 0,
}

_LINES = {
    Kind.EVENTS: "events_in",
    Kind.HEARTBEATS: "heartbeats_in",
    Kind.SCORES: "scores_in",
}
"""Tables that bodies of JSON lines are inserted into."""
_OTLP = {
    Kind.SPANS: ("otlp_traces_in", TRACES_SCHEMA),
    Kind.LOGS: ("otlp_logs_in", LOGS_SCHEMA),
    Kind.METRICS: ("otlp_metrics_in", METRICS_SCHEMA),
}
"""Tables that OTLP requests are inserted into, and their protobuf schemas."""
DOORS = (*_LINES.values(), *(table for table, _ in _OTLP.values()))
"""All tables that bodies are inserted into; views behind them fill the others."""

# The driver logs serialisation errors with tracebacks that can contain recorded content.
logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)


class BadDataError(PermanentError, code="bad_data"):
    """ClickHouse refused an insert for its content; a smaller part may pass."""


class AlreadyRunningError(StoreUnavailableError):
    """A query with the same id runs."""


class MissingRightError(StoreUnavailableError):
    """The user lacks a right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """Address of ClickHouse's HTTP interface."""

    host: str
    port: int
    username: str
    password: str
    database: str
    secure: bool = False
    is_own: bool = False
    """Whether it is the embedded engine, which no other collector uses."""

    @classmethod
    def parse(cls, dsn: str) -> "StoreAddress":
        """Parse `clickhouse[s]://user:password@host:port/database`."""
        try:
            url = urlsplit(dsn)
            port = url.port
        except ValueError as error:
            raise StartupError(f"the store's DSN cannot be read: {error}") from error
        secure = url.scheme == "clickhouses"
        if not url.hostname:
            raise StartupError(
                "the store's DSN has no host; expected clickhouse://user:pass@host/db"
            )
        return cls(
            host=url.hostname,
            port=port or (8443 if secure else 8123),
            username=unquote(url.username or "default"),
            password=unquote(url.password or ""),
            database=url.path.strip("/") or "tracereel",
            secure=secure,
        )


class ClickHouseStore:
    """Inserts and selects over a bounded pool of clients; thread-safe."""

    def __init__(
        self,
        address: StoreAddress,
        *,
        query_seconds: float,
        query_memory_bytes: int,
        max_clients: int = 8,
    ) -> None:
        self.address = address
        self._limits = (query_seconds, query_memory_bytes, max_clients)
        self._read_settings = {
            "max_execution_time": int(query_seconds),
            "max_memory_usage": query_memory_bytes,
            **sent.READ,
        }
        self._timeout = query_seconds
        self._pool = NoRedirectPool(**get_pool_manager_options(maxsize=max_clients))
        self._idle: list[Client] = []
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(max_clients)
        self._others: dict[StoreAddress, ClickHouseStore] = {}

    def at(self, host: str, port: int) -> "ClickHouseStore":
        """Return the store of another node, with the same database, user and limits."""
        return self._other(replace(self.address, host=host, port=port))

    def outside(self) -> "ClickHouseStore":
        """Return the store of a database that every server has."""
        return self._other(replace(self.address, database="default"))

    def _other(self, address: StoreAddress) -> "ClickHouseStore":
        if address == self.address:
            return self
        seconds, memory, clients = self._limits
        with self._lock:
            if address not in self._others:
                self._others[address] = ClickHouseStore(
                    address, query_seconds=seconds, query_memory_bytes=memory, max_clients=clients
                )
            return self._others[address]

    def prepare(self) -> None:
        """Create the database unless it exists; migrations create its contents."""
        there, name = self.outside(), self.address.database
        if not there.rows("SELECT 1 FROM system.databases WHERE name = {name:String}", name=name):
            there.command(f"CREATE DATABASE IF NOT EXISTS `{name}` ENGINE = Atomic")

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
            others, self._others = list(self._others.values()), {}
        for other in others:
            other.close()
        for client in idle:
            client.close()
        self._pool.clear()

    def command(self, statement: str) -> None:
        """Run a statement without a result; return when it is done on all replicas."""
        with self._client() as client:
            client.command(statement, settings=sent.DDL)

    def change(self, statement: str, parameters: Mapping[str, Any], **settings: Any) -> None:
        """Run a bound statement that changes rows; return when all replicas that are up applied it."""
        with self._client() as client:
            try:
                client.command(
                    statement, parameters=dict(parameters), settings={**sent.CHANGE, **settings}
                )
            except DatabaseError as error:
                # Keeper has the change: replicas that are away apply it when they are back.
                if getattr(error, "code", None) != UNFINISHED:
                    raise

    def put(
        self,
        table: str,
        data: bytes,
        *,
        fmt: str,
        columns: Sequence[str] | None = None,
        settings: Mapping[str, Any] = sent.PUT,
    ) -> None:
        """Insert rows; by default without deduplication."""
        with self._client() as client:
            client.raw_insert(table, columns, insert_block=data, fmt=fmt, settings=dict(settings))

    def rows(self, statement: str, **parameters: Any) -> list[tuple[str, ...]]:
        """Run a bound query and return its rows as text."""
        return rows_of(self.select(statement, parameters, fmt="TabSeparated"))

    def select(self, statement: str, parameters: Mapping[str, Any], *, fmt: str) -> bytes:
        """Run a bound query; return the response's bytes in a ClickHouse format."""
        with self._client() as client:
            return bytes(
                client.raw_query(
                    statement, parameters=dict(parameters), settings=self._read_settings, fmt=fmt
                )
            )

    @contextmanager
    def running(self, statement: str, *, query_id: str) -> Iterator[None]:
        """Let an endless query run under an id that no other query may have meanwhile.

        The server ends it when the connection closes, also if this process is killed.

        Raises:
            AlreadyRunningError: another query has the id.
        """
        settings = {**sent.ENDLESS, "query_id": query_id}
        with (
            self._client() as client,
            # The response begins with the first row.
            client.raw_stream(statement, settings=settings, fmt="TabSeparated"),
        ):
            yield

    def ping(self) -> bool:
        """Return whether the store responds to a query."""
        try:
            return self.rows("SELECT 1") == [("1",)]
        except StoreUnavailableError:
            return False

    def highest_number(self) -> int:
        """Return the highest sequence number of any stored row; 0 if there is none."""
        found = [
            int(self.rows(f"SELECT max({column}) FROM {table}")[0][0])
            for table, column in self.rows(query("numbered_tables"))
        ]
        return max(found, default=0)

    def insert(self, kind: Kind, bodies: Sequence[QueuedBody], *, token: str) -> None:
        """Insert bodies of one kind; at most once per token.

        Raises:
            BadDataError: the content is refused; nothing was stored.
            StoreUnavailableError: retry with the same bodies and token.
            UnknownRefusalError: the same, but if it persists, the content may be the cause.
        """
        settings: dict[str, Any] = {**sent.INSERT, "insert_deduplication_token": token}
        if kind in _LINES:
            self.put(_LINES[kind], rows_of_events(bodies), fmt="RowBinary", settings=settings)
            return
        table, schema = _OTLP[kind]
        settings |= {**_PROTOBUF, "format_schema": schema}
        try:
            self.put(table, messages_of_requests(bodies), fmt="Protobuf", settings=settings)
        except BadDataError:
            # Nothing was stored, so the token is still unused.
            rewritten = canonical(bodies)
            if all(new.data == old.data for new, old in zip(rewritten, bodies, strict=True)):
                raise
            self.put(table, messages_of_requests(rewritten), fmt="Protobuf", settings=settings)

    def missing(self, kind: Kind, bodies: Sequence[QueuedBody]) -> list[QueuedBody]:
        """Return the bodies of which no row is stored.

        Empty for kinds whose rows are merged, and for replicated tables.

        Raises:
            StoreUnavailableError: the store cannot be queried.
        """
        stored = self._stored_numbers(kind, bodies, [body.first_sequence_number for body in bodies])
        if stored is None:
            return []
        return [
            body
            for body in bodies
            if (body.first_sequence_number, body.received_unix_nano) not in stored
        ]

    def without_stored(self, kind: Kind, bodies: Sequence[QueuedBody]) -> list[QueuedBody]:
        """Return the bodies whose first or last record is not stored; all if that is unknown.

        Raises:
            StoreUnavailableError: the store cannot be queried.
        """
        ends = [
            (body.first_sequence_number, body.first_sequence_number + body.records - 1)
            for body in bodies
        ]
        stored = self._stored_numbers(kind, bodies, [number for both in ends for number in both])
        if stored is None:
            return list(bodies)
        return [
            body
            for body, both in zip(bodies, ends, strict=True)
            if not stored.issuperset((number, body.received_unix_nano) for number in both)
        ]

    def _stored_numbers(
        self, kind: Kind, bodies: Sequence[QueuedBody], numbers: Sequence[int]
    ) -> set[tuple[int, int]] | None:
        """Return the stored numbers of the bodies with their arrival; None if it cannot be known."""
        if kind not in _NUMBERED or not bodies:
            return None
        table, number, arrival = _NUMBERED[kind]
        if self.rows(query("table_engine"), table=table) != [("MergeTree",)]:
            # Replicas commit a token and its part in one transaction, and the queried one may lag.
            return None
        arrived = [body.received_unix_nano for body in bodies]
        stored: set[tuple[int, int]] = set()
        for begin in range(0, len(numbers), _LOOKED_UP):
            found = self.rows(
                query("stored_bodies"),
                table=table,
                number=number,
                arrival=arrival,
                first=min(arrived),
                last=max(arrived),
                numbers=list(numbers[begin : begin + _LOOKED_UP]),
            )
            stored.update((int(of), int(at)) for of, at in found)
        return stored

    @contextmanager
    def _client(self) -> Iterator[Client]:
        if not self._slots.acquire(timeout=self._timeout):
            raise StoreUnavailableError("too many queries run at once")
        client = None
        sound = False
        try:
            with self._lock:
                client = self._idle.pop() if self._idle else None
            client = client or self._connect()
            yield client
            sound = True
        except DatabaseError as error:
            sound = True
            raise _translate(error) from error
        except (ClickHouseError, HTTPError, OSError) as error:
            raise StoreUnavailableError(f"the store does not answer: {_brief(error)}") from error
        finally:
            if client is not None and sound:
                with self._lock:
                    self._idle.append(client)
            elif client is not None:
                client.close()
            self._slots.release()

    def _connect(self) -> Client:
        address = self.address
        return clickhouse_connect.get_client(
            host=address.host,
            port=address.port,
            username=address.username,
            password=address.password,
            database=address.database,
            secure=address.secure,
            compress=False,
            connect_timeout=10,
            send_receive_timeout=int(self._timeout) + 30,
            autogenerate_session_id=False,
            pool_mgr=self._pool,
        )


class NoRedirectPool(PoolManager):
    """Pool that follows no redirects: requests go only to the configured address."""

    def urlopen(self, method: str, url: str, *args: Any, **given: Any) -> Any:
        """Send a request; return a redirect as the response."""
        del args  # holds only `redirect`
        return super().urlopen(method, url, **{**given, "redirect": False})


def rows_of(data: bytes) -> list[tuple[str, ...]]:
    """Return the rows of a tab-separated response; escaped values stay escaped.

    Only line feeds separate rows; the engine escapes those in values. Python's `splitlines` would also
    split at a dozen other characters, which user content may contain.
    """
    text = data.decode(errors="replace").removesuffix("\n")
    return [tuple(line.split("\t")) for line in text.split("\n")] if text else []


def _translate(error: DatabaseError) -> Exception:
    code = getattr(error, "code", None)
    if code is None:
        return StoreUnavailableError(f"the store does not answer: {_brief(error)}")
    if code == MEMORY_LIMIT:
        return TooMuchAtOnceError(f"ClickHouse code {code}: {_brief(error)}")
    if code in DATA_ERRORS or (code == BAD_ARGUMENTS and INVALID_PROTOBUF in str(error)):
        return BadDataError(f"ClickHouse code {code}: {_brief(error)}")
    if code in ACCESS_DENIED:
        return MissingRightError(f"ClickHouse code {code}: {_brief(error)}")
    if code == ID_IN_USE:
        return AlreadyRunningError(f"ClickHouse code {code}: {_brief(error)}")
    if code in TEMPORARY_ERRORS:
        return StoreUnavailableError(f"ClickHouse code {code}: {_brief(error)}")
    return UnknownRefusalError(f"ClickHouse code {code}: {_brief(error)}")


def _brief(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
