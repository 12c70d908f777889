"""`/clickhouse`: ClickHouse's HTTP interface, read-only and limited to one tenant."""

import base64
import binascii
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.engine.request import TRANSPORT
from tracereel_collector.errors import BadRequestError, TooLargeError, UnsupportedError
from tracereel_collector.http.clickhouse_blocks import blocks
from tracereel_collector.http.dependencies import body_of, caller_of, parts_of
from tracereel_collector.http.dependencies import query as run_query
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.http.streams import HeldStream
from tracereel_collector.query.user_sql import SqlQuery
from tracereel_collector.query.user_sql.execute import MAX_SQL_BYTES
from tracereel_collector.query.user_sql.sent_filters import SETTING
from tracereel_collector.query.user_sql.statement_text import SqlRefusedError
from tracereel_collector.store.user_sql import UserSqlResult

PATHS = frozenset({"/clickhouse", "/clickhouse/"})
ROOT = "/"
"""Path for clients that cannot configure one; only `POST`, since `GET /` is the page."""
_CODES = {
    400: (62, "SYNTAX_ERROR"),
    401: (516, "AUTHENTICATION_FAILED"),
    403: (497, "ACCESS_DENIED"),
    404: (60, "UNKNOWN_TABLE"),
    413: (223, "QUERY_IS_TOO_LARGE"),
    429: (202, "TOO_MANY_SIMULTANEOUS_QUERIES"),
}
_UNAVAILABLE = (210, "NETWORK_ERROR")
_SAID = re.compile(r"Code: (\d+)\. DB::Exception: ")
ANSWER_SECONDS = 120.0
"""Longest time that a client may take to read a response."""
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
_NOT_PASSED_ON = frozenset(
    {SETTING, "limit", "readonly", "result_overflow_mode", "timeout_overflow_mode", "log_queries"}
    | {"date_time_input_format", "cast_string_to_dynamic_use_inference"}
)
"""Settings that are read otherwise, or whose only value is ours."""
_OFF = frozenset({"0", "false", ""})
_PASSED_ON = ("X-ClickHouse-Format", "X-ClickHouse-Exception-Tag", "X-ClickHouse-Timezone")
_TEXT = {"requestBody": {"content": {"text/plain": {"schema": {"type": "string"}}}}}


def with_key(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Copy a key sent as ClickHouse's password or user to the API key header."""
    if headers.get("x-api-key") or headers.get("authorization", "")[:7].lower() == "bearer ":
        return headers
    user, password = headers.get("x-clickhouse-user", ""), headers.get("x-clickhouse-key", "")
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if not password and scheme.lower() == "basic":
        try:
            pair = base64.b64decode(token, validate=True).decode("utf-8", "replace")
        except binascii.Error:
            pair = ""
        user, _, password = pair.partition(":")
    key = password or (user if user != "default" else "")
    return {**headers, "x-api-key": key} if key else headers


router = ScopedRouter(KeyScope.READ, credentials=with_key)


@router.get("/clickhouse/ping", summary="Whether the ClickHouse surface answers")
@router.get("/ping", include_in_schema=False)
async def ping() -> Response:
    """Return `Ok.`, like ClickHouse."""
    return Response("Ok.\n", media_type="text/plain; charset=UTF-8")


@router.head("/clickhouse/ping", include_in_schema=False)
@router.head("/ping", include_in_schema=False)
@router.head("/clickhouse", include_in_schema=False)
@router.head("/clickhouse/", include_in_schema=False)
async def head() -> Response:
    """Return the headers of an answer; no statement is run."""
    return Response(media_type="text/plain; charset=UTF-8")


@router.get("/clickhouse", summary="Ask in ClickHouse's protocol")
@router.get("/clickhouse/", include_in_schema=False)
async def get_query(request: Request, query: Annotated[str, Query()] = "") -> Response:
    """Run the statement in the `query` parameter."""
    return await _answer(request, query.encode("utf-8", "surrogatepass"))


@router.post("/clickhouse", summary="Ask in ClickHouse's protocol", openapi_extra=_TEXT)
@router.post("/clickhouse/", include_in_schema=False)
@router.post("/", include_in_schema=False)
async def post_query(request: Request, query: Annotated[str, Query()] = "") -> Response:
    """Run the statement in the body; the `query` parameter, if present, comes before it."""
    if request.headers.get("content-type", "").lower().startswith("multipart/"):
        raise UnsupportedError("forms are not read here; send parameters in the address")
    async with body_of(request) as data:
        if len(data) > MAX_SQL_BYTES:
            raise TooLargeError(f"the statement is longer than {MAX_SQL_BYTES} bytes")
        pieces = [query.encode("utf-8", "surrogatepass"), data]
    return await _answer(request, b"\n".join(piece for piece in pieces if piece))


async def _answer(request: Request, sql: bytes) -> Response:
    parts, tenant = parts_of(request), caller_of(request).tenant
    fields = {**request.query_params}
    statement = SqlQuery(
        sql=sql,
        tenant=tenant,
        parameters={name[6:]: fields[name] for name in fields if name.startswith("param_")},
        format=fields.get("default_format")
        or request.headers.get("x-clickhouse-format")
        or "TabSeparated",
        settings=_settings(fields),
        rows=_whole(fields, "limit") or None,
        seconds=_whole(fields, "max_execution_time") or None,
        filters=fields.get(SETTING, "").encode("utf-8", "surrogatepass"),
        whole=fields.get("wait_end_of_query") == "1",
    )
    is_packed = fields.get("compress", "0") not in _OFF
    async with AsyncExitStack() as held:
        await held.enter_async_context(parts.sql.slot(tenant))
        result, _ = await run_query(
            request, lambda parts, _: held.enter_context(parts.sql.run(statement))
        )
        shown = result.response.headers
        headers = {name: shown[name] for name in _PASSED_ON if name in shown}
        headers["X-ClickHouse-Server-Display-Name"] = "tracereel"
        headers["X-ClickHouse-Query-Id"] = str(uuid.uuid4())
        return HeldStream(
            _chunks(request, result, blocks if is_packed else None),
            held=held.pop_all(),
            media_type=shown.get("Content-Type", "application/octet-stream"),
            headers=headers,
        )


async def _chunks(
    request: Request,
    result: UserSqlResult,
    pack: Callable[[Iterable[bytes]], Iterator[bytes]] | None,
) -> AsyncIterator[bytes]:
    """Yield the response in chunks; stop if the client reads too slowly."""
    ends = time.monotonic() + ANSWER_SECONDS
    chunks = result.chunks() if pack is None else pack(result.chunks())
    while chunk := await run_query(request, lambda *_: next(chunks, b"")):
        if time.monotonic() > ends:
            raise TimeoutError("the answer was read too slowly")
        yield chunk


def _settings(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the output settings.

    Limits are ignored. Other settings are refused, as in ClickHouse's readonly mode.
    """
    if fields.get("decompress", "0") not in _OFF:
        raise BadRequestError(
            "Code: 48. DB::Exception: decompress=1 is not spoken here;"
            " send the statement as it is. (NOT_IMPLEMENTED)"
        )
    settings = {}
    for name, value in fields.items():
        of_ours = name in TRANSPORT or name in _NOT_PASSED_ON
        if of_ours or name.startswith(("param_", "max_", "input_format_")):
            continue
        if name not in _OUTPUT:
            raise SqlRefusedError(
                f"Code: 164. DB::Exception: Cannot modify '{name[:80]}' setting in readonly mode."
                " (READONLY)"
            )
        settings[name] = value
    return settings


def _whole(fields: Mapping[str, str], name: str) -> int:
    """Return a whole number; 0 if it is missing or none."""
    value = fields.get(name, "").partition(".")[0]
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0


def speaks_clickhouse(request: Request) -> bool:
    """Return whether a request uses ClickHouse's protocol."""
    path = request.scope["path"]
    return path in PATHS or (path == ROOT and request.method == "POST")


def clickhouse_error(
    status: int, message: str, hint: str | None, headers: Mapping[str, Any]
) -> Response:
    """Format an error like ClickHouse: code, message, name of the code."""
    found = _SAID.match(message)
    if found is not None:
        code, text = int(found[1]), message
    else:
        code, name = _CODES.get(status, _UNAVAILABLE)
        more = f" ({hint})" if hint else ""
        text = f"Code: {code}. DB::Exception: {message}{more}. ({name})"
    return Response(
        f"{text}\n",
        status_code=status,
        media_type="text/plain; charset=UTF-8",
        headers={**headers, "X-ClickHouse-Exception-Code": str(code)},
    )
