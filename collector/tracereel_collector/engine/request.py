"""One HTTP request in ClickHouse's terms: statement, data, parameters, settings, database."""

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from tracereel_collector.engine.failures import Code, QueryError, denied, syntax_error
from tracereel_collector.engine.http_body import RequestBody
from tracereel_collector.engine.http_message import RequestHead
from tracereel_collector.engine.refusals import REFUSED_FORMATS, Rules
from tracereel_collector.engine.statements import (
    Statement,
    check_identifiers,
    check_settings,
    parse,
)

# Transport parameters; every other one without the prefix param_ is a setting.
TRANSPORT = frozenset(
    """
    query database default_format session_id session_timeout session_check query_id quota_key
    compress decompress buffer_size wait_end_of_query client_protocol_version role user password
    send_progress_in_http_headers http_headers_progress_interval_ms enable_http_compression
    cancel_http_readonly_queries_on_client_close http_wait_end_of_query stacktrace close_session
    """.split()  # noqa: SIM905 - forty quotes would hide the names
)
_PEEK = 64 * 1024
_FIELD_NAME = re.compile(rb'\bname="([^"]*)"')


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """Checked request, ready to run."""

    statement: Statement
    database: str
    settings: Mapping[str, str]
    parameters: Mapping[str, str]
    result_format: str
    data: tuple[bytes, int, int | None] | None
    """Data of an INSERT: bytes from the URL, start and end within the body."""
    wait_end: bool


def is_authentic(head: RequestHead, secret: str) -> bool:
    """Return whether a request carries the secret as its password; the user is ignored."""
    given = head.header("x-clickhouse-key") or head.query.get("password", "")
    authorization = head.header("authorization")
    if not given and authorization[:6].lower() == "basic ":
        try:
            pair = base64.b64decode(authorization[6:], validate=True).decode("utf-8", "replace")
        except binascii.Error:
            pair = ""
        given = pair.partition(":")[2]
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def read_request(
    head: RequestHead, body: RequestBody, *, rules: Rules, max_sql: int, database: str
) -> EngineRequest:
    """Parse and check a request; raise QueryError if it must not run."""
    fields = dict(head.query)
    whole_body_is_form = False
    kind = head.header("content-type")
    if kind.startswith("multipart/form-data"):
        fields |= _multipart(kind, _limited(body, max_sql))
        whole_body_is_form = True
    elif kind.startswith("application/x-www-form-urlencoded") and _is_form(body):
        text = _limited(body, max_sql).decode("utf-8", "surrogateescape")
        fields |= dict(parse_qsl(text, keep_blank_values=True))
        whole_body_is_form = True
    settings = _settings(fields, readonly=head.method == "GET")
    parameters = {name[6:]: value for name, value in fields.items() if name.startswith("param_")}
    for name in parameters:
        if not (name.isidentifier() and name.isascii()):
            raise QueryError(Code.BAD_ARGUMENTS, f"Parameter {name!r} is not a name.")
    in_url = fields.get("query", "").encode("utf-8", "surrogateescape")
    statement, data = _statement(in_url, None if whole_body_is_form else body, rules, max_sql)
    check_identifiers(statement, parameters, rules)
    result_format = (
        statement.format
        or fields.get("default_format")
        or head.header("x-clickhouse-format")
        or "TabSeparated"
    )
    if not result_format.isidentifier() or result_format.lower() in REFUSED_FORMATS:
        raise QueryError(Code.UNKNOWN_FORMAT, f"Unknown format {result_format}.")
    wanted = fields.get("database") or head.header("x-clickhouse-database") or database
    return EngineRequest(
        statement=statement,
        # Embedded `default` maps table names to files; clients send it to mean "no database".
        database=database if wanted in {"default", "__default__"} else wanted,
        settings=settings,
        parameters=parameters,
        result_format=result_format,
        data=data,
        wait_end=fields.get("wait_end_of_query") == "1",
    )


def _settings(fields: Mapping[str, str], *, readonly: bool) -> dict[str, str]:
    for refused in ("compress", "decompress"):
        if fields.get(refused, "0") not in {"0", "false", ""}:
            raise QueryError(
                Code.NOT_IMPLEMENTED,
                f"{refused}=1 (ClickHouse's own block compression) is not spoken here; "
                "Content-Encoding is accepted.",
            )
    settings = {
        name: value
        for name, value in fields.items()
        if name not in TRANSPORT and not name.startswith("param_")
    }
    check_settings(settings)
    if readonly:
        settings.setdefault("readonly", "2")
        if settings["readonly"] not in {"1", "2"}:
            raise denied("GET is read-only; use POST to write.")
    return settings


def _statement(
    in_url: bytes, body: RequestBody | None, rules: Rules, max_sql: int
) -> tuple[Statement, tuple[bytes, int, int | None] | None]:
    """Return the statement and the place of its data. URL and body are one text in ClickHouse."""
    if len(in_url) > max_sql:
        raise _too_long(len(in_url), max_sql)
    if in_url:
        if body is None or not body.size:
            statement = parse(in_url, rules)
            return statement, _data_in(statement, in_url)
        if in_url.lstrip()[:6].upper() == b"INSERT":
            statement = parse(in_url, rules)
            if statement.data_start is not None and statement.format != "Values":
                return statement, (in_url[statement.data_start :], 0, None)
        text = in_url + b"\n" + _limited(body, max_sql)
        statement = parse(text, rules)
        return statement, _data_in(statement, text)
    if body is None or not body.size:
        raise syntax_error("Syntax error: Empty query.")
    if body.size > _PEEK:
        peeked = _insert_head(body.head(_PEEK), rules)
        if peeked is not None:
            return peeked, (b"", peeked.data_start or 0, None)
    text = _limited(body, max_sql)
    statement = parse(text, rules)
    return statement, _data_in(statement, text)


def _insert_head(start: bytes, rules: Rules) -> Statement | None:
    """Parse an INSERT at the start of a large body; None without FORMAT."""
    try:
        statement = parse(start, rules)
    except QueryError as error:
        if error.code == Code.ACCESS_DENIED:
            raise
        return None
    at = statement.data_start
    found = at is not None and at < len(start) and statement.format != "Values"
    return statement if found else None


def _data_in(statement: Statement, text: bytes) -> tuple[bytes, int, int | None] | None:
    if statement.data_start is None:
        return None
    return text[statement.data_start : statement.data_end], 0, 0


def _is_form(body: RequestBody) -> bool:
    """Return whether a body really is a form: curl declares any body as one."""
    return body.head(6).startswith((b"query=", b"param_"))


def _limited(body: RequestBody, limit: int) -> bytes:
    if body.size > limit:
        raise _too_long(body.size, limit)
    return body.head(limit)


def _too_long(size: int, limit: int) -> QueryError:
    return QueryError(
        Code.QUERY_IS_TOO_LARGE,
        f"The statement has {size} bytes; up to {limit} are accepted (data goes behind FORMAT).",
    )


def _multipart(content_type: str, data: bytes) -> dict[str, str]:
    """Return the plain fields of a form."""
    boundary = content_type.partition("boundary=")[2].split(";")[0].strip().strip('"').encode()
    if not boundary:
        raise QueryError(Code.BAD_ARGUMENTS, "multipart/form-data without a boundary.")
    fields: dict[str, str] = {}
    for part in (b"\r\n" + data).split(b"\r\n--" + boundary)[1:]:
        if part.startswith(b"--"):
            break
        head, _, value = part.partition(b"\r\n\r\n")
        name = _FIELD_NAME.search(head)
        if name is None:
            raise QueryError(Code.BAD_ARGUMENTS, "A part of the form has no name.")
        if b"filename=" in head:
            raise QueryError(Code.NOT_IMPLEMENTED, "External data (files in a form) is not taken.")
        fields[name[1].decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
    return fields
