"""What can go wrong, as classes: each knows its HTTP status and whether trying again can help.

CollectorError
  PermanentError               the same request will fail again
    BadRequestError      400   the body is not what the route takes
    UnauthorizedError    401   no key, or a wrong one
    ForbiddenError       403   a key that may not do this
    NotFoundError        404   nothing of that name
      StepNotFoundError        the run is there, the step is not
    TooSlowError         408   the body did not come in time
    TooLargeError        413   over a size limit
    UnsupportedError     415   a content type or encoding we do not read
  RetryableError               the same request may succeed later
    ThrottledError       429   the queue, or a key's share, is at its limit
    UnavailableError     503   a part that is needed does not answer now
      QueueUnavailableError    the queue cannot take or keep data
      StoreUnavailableError    ClickHouse does not answer
        TooMuchAtOnceError     ClickHouse has not the memory for this insert; a smaller one may fit
        UnknownRefusalError    ClickHouse says no, and it is not known whether for the data or the moment
  StartupError                 the process cannot start; the message says what to change
"""

from typing import ClassVar


class CollectorError(Exception):
    """Base of everything the collector raises on purpose."""

    status: int = 503
    code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class PermanentError(CollectorError):
    """Sending the same again cannot help."""


class BadRequestError(PermanentError):
    """The body or a parameter is not what the route takes."""

    status = 400
    code = "bad_request"


class UnauthorizedError(PermanentError):
    """No key, or one that belongs to nobody."""

    status = 401
    code = "unauthorized"


class ForbiddenError(PermanentError):
    """A known key that may not do this."""

    status = 403
    code = "forbidden"


class NotFoundError(PermanentError):
    """Nothing of that name for this tenant."""

    status = 404
    code = "not_found"


class StepNotFoundError(NotFoundError):
    """The run is there and has no such step."""

    code = "step_not_found"


class TooSlowError(PermanentError):
    """The body did not come in time."""

    status = 408
    code = "too_slow"


class TooLargeError(PermanentError):
    """Over a size limit, counted after decompression."""

    status = 413
    code = "too_large"


class UnsupportedError(PermanentError):
    """A content type or encoding that is not read here."""

    status = 415
    code = "unsupported_media_type"


class RetryableError(CollectorError):
    """The same request may succeed later."""

    retry_after_seconds: int = 1


class ThrottledError(RetryableError):
    """As much as may be is under way already; senders must slow down."""

    status = 429
    code = "throttled"
    retry_after_seconds = 2


class UnavailableError(RetryableError):
    """Something that is needed does not answer now."""

    status = 503
    code = "unavailable"


class QueueUnavailableError(UnavailableError):
    """The queue cannot keep data durably now."""

    code = "queue_unavailable"


class StoreUnavailableError(UnavailableError):
    """ClickHouse does not answer now."""

    code = "store_unavailable"


class TooMuchAtOnceError(StoreUnavailableError):
    """ClickHouse has not the memory for an insert of this size now."""

    code = "too_much_at_once"


class UnknownRefusalError(StoreUnavailableError):
    """ClickHouse refuses with a code that may be about the data or about the moment."""


class StartupError(CollectorError):
    """The process cannot start; the message says why and what to change."""

    code = "startup"
