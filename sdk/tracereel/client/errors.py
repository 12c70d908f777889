"""Exceptions of the client.

ClientError
 ├ InvalidRequestError        the endpoint, an id or a filter is invalid; do not retry
 ├ CollectorUnavailableError  no response, or the collector is busy (retryable)
 ├ AccessDeniedError          the API key is missing, invalid, or lacks the scope
 ├ NotFoundError              the requested object does not exist
 │  └ TraceNotFoundError      the collector has no event of this trace
 ├ ConnectionLostError        a stream ended early (retryable)
 └ UnexpectedAnswerError      a response that this version cannot read
"""

from typing import ClassVar

from tracereel.errors import TracereelError


class ClientError(TracereelError):
    """Failed request to the collector."""

    retryable: ClassVar[bool] = False
    """Whether the same request may succeed later."""


class InvalidRequestError(ClientError):
    """Invalid request: wrong endpoint, id, filter or statement."""


class CollectorUnavailableError(ClientError):
    """No response, or a collector that is busy."""

    retryable: ClassVar[bool] = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds to wait before a retry, as sent by the collector."""


class AccessDeniedError(ClientError):
    """Missing or invalid API key, or one that lacks the scope."""


class NotFoundError(ClientError):
    """Requested object that does not exist."""

    def __init__(self, message: str, *, code: str = "not_found") -> None:
        super().__init__(message)
        self.code = code
        """Error code of the collector; `step_not_found` if the run exists but the step does not."""


class TraceNotFoundError(NotFoundError):
    """Trace without events in the collector."""


class ConnectionLostError(ClientError):
    """Stream that ended early."""

    retryable: ClassVar[bool] = True


class UnexpectedAnswerError(ClientError):
    """Response that this version cannot read."""
