"""Exceptions of the collector, with HTTP status and whether a retry can succeed.

CollectorError
  PermanentError                 the same request will fail again
    BadRequestError        400   the body or a parameter is invalid
    UnauthorizedError      401   the key is missing or unknown
    ForbiddenError         403   the key lacks the scope
    UnknownResourceError   404   the resource does not exist
      StepNotFoundError          the run exists, the step does not
    TooSlowError           408   the body did not arrive in time
    TooLargeError          413   over a size limit
    UnsupportedError       415   unsupported content type or encoding
  RetryableError                 the same request may succeed later
    ThrottledError         429   a limit of the queue, the key or the tenant is reached
    ServiceUnavailableError 503  a required component is unavailable
      QueueUnavailableError      the queue cannot store data
      StoreUnavailableError      ClickHouse is unavailable
        TooMuchAtOnceError       ClickHouse lacks memory for this insert; a smaller one may fit
        UnknownRefusalError      ClickHouse refused with an error code that is not classified
  StartupError                   the process cannot start; the message says what to change
"""

from typing import ClassVar


class CollectorError(Exception):
    """Base class of all exceptions that the collector raises on purpose."""

    status: int = 503
    code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class PermanentError(CollectorError):
    """The same request will fail again."""


class BadRequestError(PermanentError):
    """The body or a parameter is invalid."""

    status = 400
    code = "bad_request"


class UnauthorizedError(PermanentError):
    """The key is missing or unknown."""

    status = 401
    code = "unauthorized"


class ForbiddenError(PermanentError):
    """The key lacks the scope for this request."""

    status = 403
    code = "forbidden"


class UnknownResourceError(PermanentError):
    """The resource does not exist for this tenant."""

    status = 404
    code = "not_found"


class StepNotFoundError(UnknownResourceError):
    """The run exists but has no such step."""

    code = "step_not_found"


class TooSlowError(PermanentError):
    """The body did not arrive in time."""

    status = 408
    code = "too_slow"


class TooLargeError(PermanentError):
    """Over a size limit, measured after decompression."""

    status = 413
    code = "too_large"


class UnsupportedError(PermanentError):
    """Unsupported content type or encoding."""

    status = 415
    code = "unsupported_media_type"


class RetryableError(CollectorError):
    """The same request may succeed later."""

    retry_after_seconds: int = 1


class ThrottledError(RetryableError):
    """A limit is reached; the client must slow down."""

    status = 429
    code = "throttled"
    retry_after_seconds = 2


class ServiceUnavailableError(RetryableError):
    """A required component is unavailable."""

    status = 503
    code = "unavailable"


class QueueUnavailableError(ServiceUnavailableError):
    """The queue cannot store data durably now."""

    code = "queue_unavailable"


class StoreUnavailableError(ServiceUnavailableError):
    """ClickHouse is unavailable."""

    code = "store_unavailable"


class TooMuchAtOnceError(StoreUnavailableError):
    """ClickHouse lacks memory for an insert of this size."""

    code = "too_much_at_once"


class UnknownRefusalError(StoreUnavailableError):
    """ClickHouse refused with a code that may concern the data or a temporary state."""


class StartupError(CollectorError):
    """The process cannot start; the message says what to change."""

    code = "startup"
