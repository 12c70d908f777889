"""`/clickhouse`: ClickHouse's HTTP interface, read-only and of one tenant, for its clients and Grafana."""

import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as StarletteScope

from tracereel_collector.api.clickhouse_answers import with_key
from tracereel_collector.api.parts import Parts, parts_of
from tracereel_collector.api.surface import Handler, ScopedRoute, Surface, behind_gate, caller_of
from tracereel_collector.auth import Scope
from tracereel_collector.engine.request import TRANSPORT
from tracereel_collector.errors import BadRequestError, TooLargeError, UnsupportedError
from tracereel_collector.query.sql import Asked
from tracereel_collector.query.sql.people import MAX_SQL_BYTES
from tracereel_collector.query.sql.words import SqlRefusedError
from tracereel_collector.store.people import Result

ANSWER_SECONDS = 120.0
"""Longest time an answer may take to be read; then it breaks off."""
_OUTPUT = frozenset(
    """
    date_time_output_format session_timezone join_use_nulls format_csv_delimiter
    format_csv_null_representation format_tsv_null_representation
    output_format_json_quote_64bit_integers output_format_json_quote_denormals
    output_format_json_quote_decimals output_format_json_named_tuples_as_objects
    output_format_json_escape_forward_slashes output_format_native_write_json_as_string
    output_format_binary_write_json_as_string output_format_decimal_trailing_zeros
    output_format_arrow_string_as_string output_format_parquet_string_as_string
    output_format_arrow_low_cardinality_as_dictionary output_format_csv_crlf_end_of_line
    """.split()  # noqa: SIM905 - twenty quotes would hide the names
)
_PASSED_ON = ("X-ClickHouse-Format", "X-ClickHouse-Exception-Tag", "X-ClickHouse-Timezone")


class _ClickHouseRoute(ScopedRoute):
    """A route whose key may come as the password that ClickHouse's clients send."""

    scope = Scope.READ

    def get_route_handler(self) -> Handler:
        return behind_gate(
            self.scope, super(ScopedRoute, self).get_route_handler(), credentials=with_key
        )


router = Surface(scope=Scope.READ, route_class=_ClickHouseRoute)
_TEXT = {"requestBody": {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/clickhouse/ping", summary="Whether the ClickHouse surface answers")
@router.get("/ping", include_in_schema=False)
async def ping() -> Response:
    """As ClickHouse answers it."""
    return Response("Ok.\n", media_type="text/plain; charset=UTF-8")


@router.get("/clickhouse", summary="Ask in ClickHouse's protocol")
@router.get("/clickhouse/", include_in_schema=False)
async def get_query(request: Request, query: Annotated[str, Query()] = "") -> Response:
    """The statement is in the address."""
    return await _answer(request, query.encode("utf-8", "surrogatepass"))


@router.post("/clickhouse", summary="Ask in ClickHouse's protocol", openapi_extra=_TEXT)
@router.post("/clickhouse/", include_in_schema=False)
@router.post("/", include_in_schema=False)
async def post_query(request: Request, query: Annotated[str, Query()] = "") -> Response:
    """The statement is the body, behind what is in the address."""
    if request.headers.get("content-type", "").lower().startswith("multipart/"):
        raise UnsupportedError("forms are not read here; send parameters in the address")
    parts = parts_of(request)
    async with parts.bodies.read(request.stream(), request.headers) as data:
        if len(data) > MAX_SQL_BYTES:
            raise TooLargeError(f"the statement is longer than {MAX_SQL_BYTES} bytes")
        pieces = [query.encode("utf-8", "surrogatepass"), data]
    return await _answer(request, b"\n".join(piece for piece in pieces if piece))


async def _answer(request: Request, sql: bytes) -> Response:
    parts = parts_of(request)
    fields = {**request.query_params}
    asked = Asked(
        sql=sql,
        tenant=caller_of(request).tenant,
        parameters={name[6:]: fields[name] for name in fields if name.startswith("param_")},
        format=fields.get("default_format")
        or request.headers.get("x-clickhouse-format")
        or "TabSeparated",
        settings=_settings(fields),
        whole=fields.get("wait_end_of_query") == "1",
    )
    running = ExitStack()
    result, _ = await parts.queries.run(lambda: running.enter_context(parts.sql.run(asked)))
    shown = result.response.headers
    headers = {name: shown[name] for name in _PASSED_ON if name in shown}
    headers["X-ClickHouse-Server-Display-Name"] = "tracereel"
    headers["X-ClickHouse-Query-Id"] = str(uuid.uuid4())
    return _Answer(
        _chunks(parts, result),
        running=running,
        media_type=shown.get("Content-Type", "application/octet-stream"),
        headers=headers,
    )


class _Answer(StreamingResponse):
    """An answer that lets go of the statement's slot however it ends, also before it has begun."""

    def __init__(self, chunks: AsyncIterator[bytes], *, running: ExitStack, **options: Any) -> None:
        super().__init__(chunks, **options)
        self._running = running

    async def __call__(self, scope: StarletteScope, receive: Receive, send: Send) -> None:
        with self._running:
            await super().__call__(scope, receive, send)


async def _chunks(parts: Parts, result: Result) -> AsyncIterator[bytes]:
    """The answer as it comes; one that is read too slowly is not waited for."""
    ends = time.monotonic() + ANSWER_SECONDS
    chunks = result.chunks()
    while chunk := await parts.queries.run(lambda: next(chunks, b"")):
        if time.monotonic() > ends:
            raise TimeoutError("the answer was read too slowly")
        yield chunk


def _settings(fields: Mapping[str, str]) -> dict[str, str]:
    """Those of the output; limits are ours, and anything else cannot be set, as in readonly mode."""
    for name in ("compress", "decompress"):
        if fields.get(name, "0") not in {"0", "false", ""}:
            raise BadRequestError(
                f"Code: 48. DB::Exception: {name}=1 is not spoken here;"
                " use Accept-Encoding. (NOT_IMPLEMENTED)"
            )
    settings = {}
    for name, value in fields.items():
        if name in TRANSPORT or name.startswith(("param_", "max_")) or name == "readonly":
            continue
        if name not in _OUTPUT:
            raise SqlRefusedError(
                f"Code: 164. DB::Exception: Cannot modify '{name[:80]}' setting in readonly mode."
                " (READONLY)"
            )
        settings[name] = value
    return settings
