"""ClickHouse errors: code, name and HTTP status."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


class Code(IntEnum):
    """ClickHouse's error codes that the engine itself reports."""

    BAD_ARGUMENTS = 36
    NOT_IMPLEMENTED = 48
    SYNTAX_ERROR = 62
    UNKNOWN_FORMAT = 73
    UNKNOWN_SETTING = 115
    TOO_MANY_SIMULTANEOUS_QUERIES = 202
    QUERY_IS_TOO_LARGE = 223
    CANNOT_DECOMPRESS = 271
    ACCESS_DENIED = 497
    AUTHENTICATION_FAILED = 516
    UNKNOWN_EXCEPTION = 1002


# As in ClickHouse's exceptionCodeToHTTPStatus; codes not listed are 500.
_STATUS = {
    code: status
    for status, codes in {
        400: (6, 25, 26, 27, 32, 33, 36, 38, 41, 53, 62, 72, 117, 167, 168, 271, 376, 444),
        401: (516,),
        403: (164, 497),
        404: (46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 336),
        408: (159,),
        413: (223,),
        501: (48,),
        503: (202, 209, 439),
    }.items()
    for code in codes
}
_CODE = re.compile(r"Code: (\d+)")


class QueryError(Exception):
    """Refused or failed request, with ClickHouse's error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """HTTP status of the response."""
        return _STATUS.get(self.code, 500)

    @property
    def text(self) -> str:
        """Error line as ClickHouse clients expect it: code, message, name."""
        message = str(self)
        if message.startswith("Code: "):
            return message
        return f"Code: {self.code}. DB::Exception: {message} ({Code(self.code).name})"


def denied(message: str) -> QueryError:
    """Return the error of a request that reaches out of the store."""
    return QueryError(Code.ACCESS_DENIED, message)


def syntax_error(message: str) -> QueryError:
    """Return the error of a text that is not one statement."""
    return QueryError(Code.SYNTAX_ERROR, message)


def from_engine(error: Exception) -> QueryError:
    """Convert a chDB error, whose text contains the code."""
    text = str(error)
    found = _CODE.search(text)
    if found is None:
        return QueryError(Code.UNKNOWN_EXCEPTION, text or type(error).__name__)
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
