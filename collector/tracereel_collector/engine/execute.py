"""Execution of one checked request on a chDB handle."""

import threading
import time
from collections import OrderedDict
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tracereel_collector.engine.compat import count_statements
from tracereel_collector.engine.failures import Code, QueryError, engine_errors, syntax_error
from tracereel_collector.engine.handles import HandlePool
from tracereel_collector.engine.http_body import RequestBody
from tracereel_collector.engine.insert_files import InsertFiles
from tracereel_collector.engine.request import EngineRequest

# chDB encodes each block of a stream separately: only formats without header and footer concatenate.
STREAMABLE = frozenset(
    {"native", "rowbinary", "tabseparated", "tsv", "csv", "jsoneachrow", "jsoncompacteachrow"}
)
_REMEMBERED = 2048
_REMEMBERED_LENGTH = 16 * 1024


@dataclass(frozen=True, slots=True)
class StatementResult:
    """Result of a statement; `more` continues `body` and may raise QueryError."""

    body: bytes
    format: str | None
    summary: Mapping[str, str]
    more: Generator[bytes] | None = None


class Executor:
    """Runs a bounded number of statements at a time."""

    def __init__(self, pool: HandlePool, *, max_queries: int, queue_seconds: float) -> None:
        self._pool = pool
        self._slots = threading.BoundedSemaphore(max_queries)
        self._max_queries = max_queries
        self._queue_seconds = queue_seconds
        self._single = _SingleStatements()
        self._files = InsertFiles()

    @contextmanager
    def run(self, request: EngineRequest, body: RequestBody) -> Iterator[StatementResult]:
        """Run a statement. The handle is cleaned up after the response, so the client does not wait."""
        settings = dict(request.settings)
        into = request.data is not None
        if into and request.parameters:
            # chDB takes no parameters with an INSERT: set them on a handle that is then closed.
            settings |= {f"param_{name}": value for name, value in request.parameters.items()}
        with ExitStack() as stack:
            if not self._slots.acquire(timeout=self._queue_seconds):
                raise QueryError(
                    Code.TOO_MANY_SIMULTANEOUS_QUERIES,
                    f"Too many simultaneous queries: all {self._max_queries} slots stayed busy for "
                    f"{self._queue_seconds:g} s. Try again later.",
                )
            slot = stack.enter_context(ExitStack())
            slot.callback(self._slots.release)
            handle = stack.enter_context(
                self._pool.lend(
                    request.database, settings, single_use=into and bool(request.parameters)
                )
            )
            if into:
                result = _insert(handle, request, body, self._files)
            else:
                self._single.check(handle, request.statement.sql)
                result = _query(handle, request)
            if result.more is None:
                slot.close()
            yield result


class _SingleStatements:
    """Cached check by the engine's parser that a text is one statement, besides our lexer's."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, handle: Any, sql: str) -> None:
        with self._lock:
            if sql in self._known:
                self._known.move_to_end(sql)
                return
        # Without chDB's parser, the lexer alone decides.
        if count_statements(handle, sql) > 1:
            raise syntax_error(
                "Syntax error (Multi-statements are not allowed): one per request is accepted."
            )
        if len(sql) <= _REMEMBERED_LENGTH:
            with self._lock:
                self._known[sql] = None
                if len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)


def _insert(
    handle: Any, request: EngineRequest, body: RequestBody, files: InsertFiles
) -> StatementResult:
    """Insert data from an unnamed file. It is never parsed as SQL, and all errors are reported.

    chDB's streaming insert needs no file, but it reports success when a view or a table behind the
    parser has failed (memory, disk, a constraint), which would lose data.
    """
    assert request.data is not None  # noqa: S101 - the caller's branch
    in_url, start, end = request.data
    statement = request.statement
    pieces = (in_url,) if end is not None else chain((in_url,), body.pieces(start))
    with files.holding(pieces) as descriptor:
        source = f" FROM INFILE '/dev/fd/{descriptor}' COMPRESSION 'none' "
        head, tail = statement.sql[: statement.source_at], statement.sql[statement.source_at :]
        sql = f"{head}{source}{tail} FORMAT {statement.format}"
        started = time.perf_counter_ns()
        with engine_errors():
            done = handle.query(sql, "TabSeparated")
    summary = {
        "read_rows": str(done.rows_written()),
        "read_bytes": str(done.bytes_written()),
        "written_rows": str(done.rows_written()),
        "written_bytes": str(done.bytes_written()),
        "elapsed_ns": str(time.perf_counter_ns() - started),
    }
    return StatementResult(body=b"", format=None, summary=summary)


def _query(handle: Any, request: EngineRequest) -> StatementResult:
    statement, wanted = request.statement, request.result_format
    streams = (
        not request.wait_end
        and statement.keyword in {"SELECT", "WITH"}
        and wanted.lower() in STREAMABLE
    )
    if streams:
        return _stream(handle, request)
    with engine_errors():
        result = handle.query(statement.sql, wanted, params=dict(request.parameters))
        body = bytes(result.bytes() or b"")
    summary = {
        "read_rows": str(result.storage_rows_read()),
        "read_bytes": str(result.storage_bytes_read()),
        "written_rows": str(result.rows_written()),
        "written_bytes": str(result.bytes_written()),
        "result_rows": str(result.rows_read()),
        "elapsed_ns": str(int(result.elapsed() * 1e9)),
    }
    shown = wanted if body or statement.returns_rows else None
    return StatementResult(body=body, format=shown, summary=summary)


def _stream(handle: Any, request: EngineRequest) -> StatementResult:
    """Start a streamed query. Two blocks are read first, since a single one can have a length."""
    started = time.perf_counter_ns()
    stream = None
    try:
        with engine_errors():
            stream = handle.send_query(
                request.statement.sql, request.result_format, params=dict(request.parameters)
            )
            first, second = _next(stream), None
            if first is not None:
                second = _next(stream)
    except QueryError:
        if stream is not None:
            _quietly(stream.close)
        raise
    summary = {"elapsed_ns": str(time.perf_counter_ns() - started)}
    more = None if second is None else _rest(stream, second)
    return StatementResult(
        body=first or b"", format=request.result_format, summary=summary, more=more
    )


def _rest(stream: Any, block: bytes | None) -> Generator[bytes]:
    try:
        while block is not None:
            yield block
            with engine_errors():
                block = _next(stream)
    except BaseException:
        _quietly(stream.close)
        raise
    with engine_errors():
        stream.close()  # an error may surface only here; it is reported and the handle is closed


def _next(stream: Any) -> bytes | None:
    chunk = stream.fetch()
    return None if chunk is None else bytes(chunk.bytes() or b"")


def _quietly(close: Any) -> None:
    try:
        close()
    except Exception:  # noqa: BLE001 - the failure that led here is the one to report
        pass
