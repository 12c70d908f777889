"""ClickHouse errors: code, name and HTTP status."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

UNKNOWN_EXCEPTION = 1002
NOT_IMPLEMENTED = 48
SYNTAX_ERROR = 62
BAD_ARGUMENTS = 36
TIMEOUT_EXCEEDED = 159
TOO_MANY_QUERIES = 202
QUERY_IS_TOO_LARGE = 223
CANNOT_DECOMPRESS = 271
ACCESS_DENIED = 497
AUTHENTICATION_FAILED = 516

_NAMES = {
    UNKNOWN_EXCEPTION: "UNKNOWN_EXCEPTION",
    NOT_IMPLEMENTED: "NOT_IMPLEMENTED",
    SYNTAX_ERROR: "SYNTAX_ERROR",
    BAD_ARGUMENTS: "BAD_ARGUMENTS",
    TOO_MANY_QUERIES: "TOO_MANY_SIMULTANEOUS_QUERIES",
    QUERY_IS_TOO_LARGE: "QUERY_IS_TOO_LARGE",
    73: "UNKNOWN_FORMAT",
    115: "UNKNOWN_SETTING",
    CANNOT_DECOMPRESS: "CANNOT_DECOMPRESS",
    ACCESS_DENIED: "ACCESS_DENIED",
    AUTHENTICATION_FAILED: "AUTHENTICATION_FAILED",
}

# As in ClickHouse's exceptionCodeToHTTPStatus; codes not listed are 500.
_STATUS = {
    **dict.fromkeys(
        (6, 25, 26, 27, 32, 33, 36, 38, 41, 53, 62, 72, 117, 167, 168, 271, 376, 444), 400
    ),
    AUTHENTICATION_FAILED: 401,
    **dict.fromkeys((164, 497), 403),
    **dict.fromkeys((46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 336), 404),
    TIMEOUT_EXCEEDED: 408,
    QUERY_IS_TOO_LARGE: 413,
    NOT_IMPLEMENTED: 501,
    **dict.fromkeys((TOO_MANY_QUERIES, 209, 439), 503),
}
_CODE = re.compile(r"Code: (\d+)")


class QueryError(Exception):
    """Refused or failed request, with ClickHouse's error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        return _STATUS.get(self.code, 500)

    @property
    def text(self) -> str:
        """Error line as ClickHouse clients expect it: code, message, name."""
        message = str(self)
        if message.startswith("Code: "):
            return message
        name = _NAMES.get(self.code, "UNKNOWN_EXCEPTION")
        return f"Code: {self.code}. DB::Exception: {message} ({name})"


def from_engine(error: Exception) -> QueryError:
    """Convert a chDB error, whose text contains the code."""
    text = str(error)
    found = _CODE.search(text)
    if found is None:
        return QueryError(UNKNOWN_EXCEPTION, text or type(error).__name__)
    return QueryError(int(found[1]), text[found.start() :])


@contextmanager
def engine_errors() -> Iterator[None]:
    """Convert any error that chDB raises into a QueryError."""
    try:
        yield
    except QueryError:
        raise
    except Exception as error:  # noqa: BLE001 - RuntimeError, ChdbError or TypeError, by call
        raise from_engine(error) from None
