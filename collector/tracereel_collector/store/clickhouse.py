"""The store over clickhouse-connect: the same code for the embedded engine and for a server."""

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from tracereel_collector.store.canonical import canonical
from tracereel_collector.store.envelope import messages_of_requests, rows_of_events
from tracereel_collector.store.error_codes import (
    BAD_ARGUMENTS,
    DATA_ERRORS,
    INVALID_PROTOBUF,
    MEMORY_LIMIT,
    MOMENT_ERRORS,
)
from tracereel_collector.store.otlp_signals import LOGS_SCHEMA, METRICS_SCHEMA
from tracereel_collector.store.otlp_types import PROTO_SCHEMA
from tracereel_collector.store.sql import query
from tracereel_collector.store.tab_separated import rows_of

_INSERT = {
    "async_insert": 0,
    # On a cluster the views write to distributed tables: done means done on the shards.
    "distributed_foreground_insert": 1,
    "insert_deduplicate": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    # The blocks of a retried insert must be cut as they were the first time.
    "input_format_parallel_parsing": 0,
    "max_insert_threads": 1,
    "min_insert_block_size_rows": 0,
    "min_insert_block_size_bytes": 0,
}
_CHANGE = {
    "mutations_sync": 2,
    "distributed_foreground_insert": 1,
    "distributed_product_mode": "global",
}
_FILL = {
    **_CHANGE,
    # What is missing is worked out anew each time: nothing of it was inserted before.
    "insert_deduplicate": 0,
    # Others are waiting for their answers meanwhile.
    "max_threads": 1,
    "max_insert_threads": 1,
}
_PROTOBUF = {
    "format_schema_source": "string",
    "format_schema_message_name": "Body",
    "input_format_protobuf_oneof_presence": 1,
    # Lists and maps in attributes become JSON text; a slash stays a slash.
    "output_format_json_escape_forward_slashes": 0,
}

_LINES = {
    Kind.EVENTS: "events_in",
    Kind.HEARTBEATS: "heartbeats_in",
    Kind.SCORES: "scores_in",
}
"""Where bodies of JSON lines go."""
_OTLP = {
    Kind.SPANS: ("otlp_traces_in", PROTO_SCHEMA),
    Kind.LOGS: ("otlp_logs_in", LOGS_SCHEMA),
    Kind.METRICS: ("otlp_metrics_in", METRICS_SCHEMA),
}
"""Where the requests of each signal go, and how the engine reads them."""

# It logs serialisation errors with tracebacks that can show what people recorded.
logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)


class BadDataError(PermanentError):
    """ClickHouse refused an insert for what it contains: a smaller part of it may be fine."""

    code = "bad_data"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """Where ClickHouse's HTTP interface is."""

    host: str
    port: int
    username: str
    password: str
    database: str
    secure: bool = False

    @classmethod
    def parse(cls, dsn: str) -> "StoreAddress":
        """Read `clickhouse[s]://user:password@host:port/database`.

        Raises:
            StartupError: a part is missing or not a number.
        """
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
    """Inserts and selects; every method may be called from any thread, each on a client of its own."""

    def __init__(
        self,
        address: StoreAddress,
        *,
        query_seconds: float,
        query_memory_bytes: int,
        max_clients: int = 8,
    ) -> None:
        self._address = address
        self._read_settings = {
            "max_execution_time": int(query_seconds),
            "max_memory_usage": query_memory_bytes,
            # On a cluster, a question within a question is of all shards too, and asked once.
            "distributed_product_mode": "global",
        }
        self._timeout = query_seconds
        self._pool = NoRedirects(**get_pool_manager_options(maxsize=max_clients))
        self._idle: list[Client] = []
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(max_clients)

    def prepare(self) -> None:
        """Make the database; what is in it comes from migrations."""
        with self._client(database="default") as client:
            client.command(
                f"CREATE DATABASE IF NOT EXISTS `{self._address.database}` ENGINE = Atomic"
            )

    def close(self) -> None:
        """Let go of idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()
        self._pool.clear()

    def command(self, statement: str) -> None:
        """Run a statement that returns nothing."""
        with self._client() as client:
            client.command(statement)

    def change(self, statement: str, parameters: Mapping[str, Any]) -> None:
        """Run a bound statement that changes rows; returns when they have changed."""
        with self._client() as client:
            client.command(statement, parameters=dict(parameters), settings=_CHANGE)

    def fill(self, statement: str, parameters: Mapping[str, Any], *, name: str) -> None:
        """Run a bound INSERT … SELECT beside everything else; on a server, one of a name at a time.

        It ends before this gives it up, so that it is over whenever it is tried again.
        """
        settings = {**_FILL, "max_execution_time": int(self._timeout), "query_id": name}
        with self._client() as client:
            client.command(statement, parameters=dict(parameters), settings=settings)

    def put(self, table: str, columns: Sequence[str], data: bytes, *, fmt: str) -> None:
        """Insert rows as they are, however often the same."""
        settings = {"async_insert": 0, "insert_deduplicate": 0}
        with self._client() as client:
            client.raw_insert(table, columns, insert_block=data, fmt=fmt, settings=settings)

    def rows(self, statement: str) -> list[tuple[str, ...]]:
        """Run a query and return its rows as text."""
        with self._client() as client:
            data = client.raw_query(statement, fmt="TabSeparated")
        return rows_of(data)

    def select(self, statement: str, parameters: Mapping[str, Any], *, fmt: str) -> bytes:
        """Run a bound query and return the answer's bytes in a ClickHouse format."""
        with self._client() as client:
            return bytes(
                client.raw_query(
                    statement, parameters=dict(parameters), settings=self._read_settings, fmt=fmt
                )
            )

    def ping(self) -> bool:
        """Whether the store answers a query now."""
        try:
            return self.rows("SELECT 1") == [("1",)]
        except StoreUnavailableError:
            return False

    def highest_number(self) -> int:
        """The highest sequence number that any stored row carries; 0 when there is none."""
        found = [
            int(self.rows(f"SELECT max({column}) FROM {table}")[0][0])
            for table, column in self.rows(query("numbered_tables"))
        ]
        return max(found, default=0)

    def insert(self, kind: Kind, bodies: Sequence[QueuedBody], *, token: str) -> None:
        """Store bodies of one kind, once per token however often it is called.

        Raises:
            BadDataError: the content cannot be stored; nothing of it was.
            StoreUnavailableError: try again, with the same bodies and token.
            UnknownRefusalError: the same, but should it stay so, it may be for the content.
        """
        settings: dict[str, Any] = {**_INSERT, "insert_deduplication_token": token}
        if kind in _LINES:
            self._insert_block(_LINES[kind], rows_of_events(bodies), "RowBinary", settings)
            return
        table, schema = _OTLP[kind]
        settings |= {**_PROTOBUF, "format_schema": schema}
        try:
            self._insert_block(table, messages_of_requests(bodies), "Protobuf", settings)
        except BadDataError:
            # Nothing of it was stored, so that the token is still free.
            rewritten = canonical(bodies)
            if all(new.data == old.data for new, old in zip(rewritten, bodies, strict=True)):
                raise
            self._insert_block(table, messages_of_requests(rewritten), "Protobuf", settings)

    def _insert_block(self, table: str, block: bytes, fmt: str, settings: dict[str, Any]) -> None:
        with self._client() as client:
            client.raw_insert(table, insert_block=block, fmt=fmt, settings=settings)

    @contextmanager
    def _client(self, database: str | None = None) -> Iterator[Client]:
        if not self._slots.acquire(timeout=self._timeout):
            raise StoreUnavailableError("too many queries run at once")
        client = None
        sound = False
        try:
            with self._lock:
                client = self._idle.pop() if self._idle and database is None else None
            client = client or self._connect(database or self._address.database)
            yield client
            sound = database is None
        except DatabaseError as error:
            sound = database is None
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

    def _connect(self, database: str) -> Client:
        address = self._address
        return clickhouse_connect.get_client(
            host=address.host,
            port=address.port,
            username=address.username,
            password=address.password,
            database=database,
            secure=address.secure,
            compress=False,
            connect_timeout=10,
            send_receive_timeout=int(self._timeout) + 30,
            autogenerate_session_id=False,
            pool_mgr=self._pool,
        )


class NoRedirects(PoolManager):
    """Connections to the store alone: an address that it names is not the one that was configured."""

    def urlopen(self, method: str, url: str, *args: Any, **given: Any) -> Any:
        """As urllib3 does it, but where an answer points elsewhere, that is the answer."""
        del args  # only whether to follow
        return super().urlopen(method, url, **{**given, "redirect": False})


def _translate(error: DatabaseError) -> Exception:
    code = getattr(error, "code", None)
    if code is None:
        return StoreUnavailableError(f"the store does not answer: {_brief(error)}")
    if code == MEMORY_LIMIT:
        return TooMuchAtOnceError(f"ClickHouse code {code}: {_brief(error)}")
    if code in DATA_ERRORS or (code == BAD_ARGUMENTS and INVALID_PROTOBUF in str(error)):
        return BadDataError(f"ClickHouse code {code}: {_brief(error)}")
    if code in MOMENT_ERRORS:
        return StoreUnavailableError(f"ClickHouse code {code}: {_brief(error)}")
    return UnknownRefusalError(f"ClickHouse code {code}: {_brief(error)}")


def _brief(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
