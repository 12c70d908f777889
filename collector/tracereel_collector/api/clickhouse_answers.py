"""How the ClickHouse surface says things: where it is, who asks, and errors as its clients read them."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import Response

PATHS = frozenset({"/clickhouse", "/clickhouse/"})
ROOT = "/"
"""For clients that cannot be told a path: only what is posted, `GET /` is the page."""
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


def speaks_clickhouse(request: Request) -> bool:
    """Whether a request came by ClickHouse's protocol."""
    path = request.scope["path"]
    return path in PATHS or (path == ROOT and request.method == "POST")


def clickhouse_error(
    status: int, message: str, hint: str | None, headers: Mapping[str, Any]
) -> Response:
    """An error as ClickHouse says it: its code, the message, the code's name."""
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


def with_key(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Headers in which a key that came as ClickHouse's password, or user, is an API key."""
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
