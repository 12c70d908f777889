"""Exceptions of the collector, with HTTP status and whether a retry can succeed."""


class CollectorError(Exception):
    """Base class of all exceptions that the collector raises on purpose.

    Subclasses inherit HTTP status and error code unless they declare their own.
    """

    status: int = 503
    code: str = "internal"
    reason: str = ""
    """Label of the metric of refused callers; empty for errors that it does not count."""

    def __init_subclass__(cls, *, status: int | None = None, code: str | None = None) -> None:
        super().__init_subclass__()
        cls.status = status or cls.status
        cls.code = code or cls.code

    def __init__(self, message: str, *, hint: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.reason = reason or self.reason


class PermanentError(CollectorError):
    """The same request will fail again."""


class BadRequestError(PermanentError, status=400, code="bad_request"):
    """The body or a parameter is invalid."""


class InvalidFilterError(BadRequestError):
    """A filter or a time window of a query is invalid."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"Invalid filter: {message}", hint=hint)


class UnauthorizedError(PermanentError, status=401, code="unauthorized"):
    """The key is missing or unknown."""


class ForbiddenError(PermanentError, status=403, code="forbidden"):
    """The key lacks the scope for this request."""


class UnknownResourceError(PermanentError, status=404, code="not_found"):
    """The resource does not exist for this tenant."""


class StepNotFoundError(UnknownResourceError, code="step_not_found"):
    """The run exists but has no such step."""


class TooSlowError(PermanentError, status=408, code="too_slow"):
    """The body did not arrive in time."""


class TooLargeError(PermanentError, status=413, code="too_large"):
    """Over a size limit, measured after decompression."""


class UnsupportedError(PermanentError, status=415, code="unsupported_media_type"):
    """Unsupported content type or encoding."""


class RetryableError(CollectorError):
    """The same request may succeed later."""

    retry_after_seconds: int = 1


class ThrottledError(RetryableError, status=429, code="throttled"):
    """A limit is reached; the client must slow down."""

    retry_after_seconds = 2


class ServiceUnavailableError(RetryableError, status=503, code="unavailable"):
    """A required component is unavailable."""


class QueueUnavailableError(ServiceUnavailableError, code="queue_unavailable"):
    """The queue cannot store data durably now."""


class StoreUnavailableError(ServiceUnavailableError, code="store_unavailable"):
    """ClickHouse is unavailable."""


class TooMuchAtOnceError(StoreUnavailableError, code="too_much_at_once"):
    """ClickHouse lacks memory for an insert of this size; a smaller one may fit."""


class UnknownRefusalError(StoreUnavailableError):
    """ClickHouse refused with a code that may concern the data or a temporary state."""


class StartupError(CollectorError, code="startup"):
    """The process cannot start; the message says what to change."""
