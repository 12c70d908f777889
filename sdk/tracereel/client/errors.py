"""What may go wrong between a client and the collector.

ClientError
 ├ InvalidRequestError        the endpoint, an id or a filter cannot be right; not worth sending again
 ├ CollectorUnavailableError  nobody answered, or the collector says to come back later (retryable)
 ├ AccessDeniedError          the API key is missing, not accepted, or may not do this
 ├ NotFoundError              the collector has nothing of that name
 │  └ TraceNotFoundError      it has no event of this trace
 ├ ConnectionLostError        a stream ended before it was over (retryable)
 └ UnexpectedAnswerError      an answer that this version cannot read
"""

from typing import ClassVar

from tracereel.errors import TracereelError


class ClientError(TracereelError):
    """A request to the collector did not give what was asked for."""

    retryable: ClassVar[bool] = False
    """Whether the same request may succeed later."""


class InvalidRequestError(ClientError):
    """The request cannot be right as it is: wrong endpoint, id, filter or statement."""


class CollectorUnavailableError(ClientError):
    """Nobody answered, or the collector says to come back later."""

    retryable: ClassVar[bool] = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the collector asked to wait, where it said so."""


class AccessDeniedError(ClientError):
    """The API key is missing, not accepted, or may not do this."""


class NotFoundError(ClientError):
    """The collector has nothing of that name."""

    def __init__(self, message: str, *, code: str = "not_found") -> None:
        super().__init__(message)
        self.code = code
        """What the collector calls it; `step_not_found` where the run is there and the step is not."""


class TraceNotFoundError(NotFoundError):
    """The collector has no event of this trace."""


class ConnectionLostError(ClientError):
    """A stream ended before it was over."""

    retryable: ClassVar[bool] = True


class UnexpectedAnswerError(ClientError):
    """An answer that this version cannot read."""
