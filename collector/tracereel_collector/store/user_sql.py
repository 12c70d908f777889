"""Execution of users' statements over plain HTTP, with the given settings only."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from clickhouse_connect.driver.httputil import get_pool_manager_options
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError
from urllib3.util import Timeout

from tracereel_collector.errors import BadRequestError, StoreUnavailableError
from tracereel_collector.store.clickhouse import NoRedirectPool, StoreAddress

CHUNK = 256 * 1024
_SECRETS = 516
"""Authentication failed: a matter of the collector's configuration, not of the statement."""
_TOO_LONG = 396
_BUSY = frozenset({202, 209, 210, 439})


class StatementError(BadRequestError, code="sql_failed"):
    """The store could not run a statement; `number` is ClickHouse's error code."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


@dataclass(slots=True)
class UserSqlResult:
    """Streamed result; must be read to its end or closed."""

    response: BaseHTTPResponse
    max_bytes: int
    """Maximum bytes to read: the engine's own limit counts a repeated value only once."""
    rows: int | None = None
    """Number of rows, if known before the end."""
    closed: bool = field(default=False, init=False)

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes of the result."""
        left = self.max_bytes
        try:
            for chunk in self.response.stream(CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise StatementError(
                        _TOO_LONG,
                        f"Code: {_TOO_LONG}. DB::Exception: Limit for result exceeded, max bytes:"
                        f" {self.max_bytes}. (TOO_MANY_ROWS_OR_BYTES)",
                    )
                yield chunk
        except (HTTPError, OSError) as error:
            raise StoreUnavailableError("the store's answer broke off") from error
        finally:
            self.close()

    def close(self) -> None:
        """Release the connection and discard unread bytes."""
        if not self.closed:
            self.closed = True
            self.response.close()
            self.response.release_conn()


class UserSqlStore:
    """Store's HTTP interface for statements that were already checked; thread-safe."""

    def __init__(self, address: StoreAddress, *, connections: int) -> None:
        self._address = address
        self._pool = NoRedirectPool(**get_pool_manager_options(maxsize=connections))

    def run(
        self,
        sql: str,
        *,
        settings: Mapping[str, Any],
        parameters: Mapping[str, str],
        fmt: str,
        whole: bool,
        seconds: float,
        max_bytes: int,
    ) -> UserSqlResult:
        """Run a statement; with `whole`, the response starts only after the query has finished.

        Raises:
            StatementError: the store could not run it.
            StoreUnavailableError: the store is unavailable.
        """
        address = self._address
        fields = {
            **{name: str(value) for name, value in settings.items()},
            **{f"param_{name}": value for name, value in parameters.items()},
            "database": address.database,
            "default_format": fmt,
        }
        if whole:
            fields["wait_end_of_query"] = "1"
        scheme = "https" if address.secure else "http"
        try:
            response = self._pool.request(
                "POST",
                f"{scheme}://{address.host}:{address.port}/?{urlencode(fields)}",
                body=sql.encode(),
                headers={
                    "X-ClickHouse-User": address.username,
                    "X-ClickHouse-Key": address.password,
                },
                preload_content=False,
                retries=False,
                timeout=Timeout(connect=10, read=seconds + 30),
            )
        except (HTTPError, OSError) as error:
            raise StoreUnavailableError("the store does not answer") from error
        if response.status != 200:
            raise _failure(response)
        return UserSqlResult(response, max_bytes, rows=_rows(response))


def _failure(response: BaseHTTPResponse) -> Exception:
    try:
        text = response.read(16 * 1024).decode("utf-8", "replace")
    except (HTTPError, OSError):
        text = ""
    finally:
        response.close()
        response.release_conn()
    code = response.headers.get("X-ClickHouse-Exception-Code", "")
    message = " ".join(text.split())[:2000]
    if not code.isdigit() or int(code) == _SECRETS or int(code) in _BUSY:
        return StoreUnavailableError(f"the store does not answer: {message[:200]}")
    return StatementError(int(code), message)


def _rows(response: BaseHTTPResponse) -> int | None:
    try:
        summary = json.loads(response.headers.get("X-ClickHouse-Summary", "{}"))
        return int(summary["result_rows"])
    except (ValueError, KeyError, TypeError):
        return None
