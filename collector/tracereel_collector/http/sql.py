"""`POST /v1/sql`: read-only SQL queries within limits."""

from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import Query, Request
from fastapi.responses import Response

from tracereel_collector.auth import KeyScope
from tracereel_collector.errors import BadRequestError
from tracereel_collector.http.dependencies import body_of, caller_of, parts_of, query
from tracereel_collector.http.parameters import check_size
from tracereel_collector.http.scoped_router import ScopedRouter
from tracereel_collector.query.user_sql import SqlQuery, UserSql
from tracereel_collector.query.user_sql.execute import MAX_SQL_BYTES

router = ScopedRouter(KeyScope.READ)
MAX_ROWS = 100_000
ROWS = 1_000
Format = Literal["json", "csv", "ndjson", "parquet"]

_FORMATS: dict[str, tuple[str, str]] = {
    "json": ("JSONCompact", "application/json"),
    "csv": ("CSVWithNames", "text/csv; charset=utf-8"),
    "ndjson": ("JSONEachRow", "application/x-ndjson"),
    "parquet": ("Parquet", "application/vnd.apache.parquet"),
}
_ACCEPTED = {
    "text/csv": "csv",
    "application/x-ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/vnd.apache.parquet": "parquet",
}
_NUMBERS = {
    "output_format_json_quote_64bit_integers": "0",
    "output_format_json_quote_denormals": "0",
}
MAX_BYTES: Final = 4 * MAX_SQL_BYTES
"""Most bytes of a statement with its parameters."""
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\0": "\\0", "\r": "\\r"})
_STATEMENT = {
    "type": "object",
    "required": ["query"],
    "properties": {
        "query": {"type": "string"},
        "parameters": {"type": "object", "additionalProperties": {}},
    },
}
_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": _STATEMENT},
        "text/plain": {"schema": {"type": "string"}},
    },
}
_Scalar = str | int | float | bool


class _SqlRequest(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    parameters: dict[str, _Scalar | list[_Scalar]] = {}


class _Column(msgspec.Struct):
    name: str
    type: str


class _Compact(msgspec.Struct):
    """ClickHouse's JSONCompact format; rows are not decoded."""

    meta: list[_Column]
    data: msgspec.Raw
    rows: int


@router.post("/v1/sql", summary="Ask in SQL", openapi_extra={"requestBody": _BODY})
async def post_sql(
    request: Request,
    format: Format | None = None,  # noqa: A002 - part of the API
    limit: Annotated[int, Query(ge=1, le=MAX_ROWS)] = ROWS,
) -> Response:
    """Run one SELECT on the tenant's rows; `SHOW TABLES` lists the tables.

    The body is the statement, or JSON with `query` and the `parameters` for its `{name:Type}`
    placeholders.
    """
    parts, tenant = parts_of(request), caller_of(request).tenant
    async with body_of(request) as data:
        given = _read(data, request.headers.get("content-type", ""))
    wanted, media = _FORMATS[format or _wanted(request.headers.get("accept", ""))]
    statement = SqlQuery(
        sql=given.query.encode("utf-8", "surrogatepass"),
        tenant=tenant,
        parameters={name: _text(value) for name, value in given.parameters.items()},
        format=wanted,
        settings=_NUMBERS,
        rows=limit,
        whole=True,
    )
    async with parts.sql.slot(tenant):
        answer, made, rows = await query(request, lambda parts, _: _run(parts.sql, statement))
    limited = rows is not None and rows >= limit
    headers = {"X-Limit-Reached": str(limited).lower()}
    if made == "JSONCompact" == wanted:
        return Response(_document(answer, limit), media_type=media, headers=headers)
    if made != wanted:
        media = "application/json" if made.startswith("JSON") else "application/octet-stream"
    return Response(answer, media_type=media, headers=headers)


def _run(sql: UserSql, statement: SqlQuery) -> tuple[bytes, str, int | None]:
    with sql.run(statement) as (result, made):
        return b"".join(result.chunks()), made, result.rows


def _document(answer: bytes, limit: int) -> bytes:
    found = msgspec.json.decode(answer, type=_Compact)
    head = {"columns": found.meta, "row_count": found.rows, "limit_reached": found.rows >= limit}
    return msgspec.json.encode({**head, "rows": found.data})


def _read(data: bytes, content_type: str) -> _SqlRequest:
    check_size(data, MAX_BYTES)
    if content_type.lower().startswith("application/json") or data.lstrip()[:1] == b"{":
        try:
            return msgspec.json.decode(data, type=_SqlRequest)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRequestError(
                f"the body cannot be read: {error}",
                hint='expected {"query": "SELECT …", "parameters": {}}, or the statement itself',
            ) from error
    try:
        return _SqlRequest(data.decode())
    except UnicodeDecodeError as error:
        raise BadRequestError(f"the statement is not UTF-8: {error.reason}") from error


def _text(value: Any) -> str:
    """Format a parameter for ClickHouse: escaped, and quoted inside a list."""
    if isinstance(value, list):
        inner = (f"'{_escaped(each)}'" if isinstance(each, str) else _text(each) for each in value)
        return f"[{','.join(inner)}]"
    if isinstance(value, str):
        return value.translate(_ESCAPES)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    return text.translate(_ESCAPES).replace("'", "\\'")


def _wanted(accept: str) -> str:
    for part in accept.split(","):
        kind = part.partition(";")[0].strip().lower()
        if kind in _ACCEPTED:
            return _ACCEPTED[kind]
    return "json"
