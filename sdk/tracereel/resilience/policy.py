"""Retry decisions from the outcome of an attempt and its number."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from tracereel._export.backoff import retry_after_seconds
from tracereel._redact import values
from tracereel._runtime import guard
from tracereel.resilience.backoff import Strategy, exponential_backoff
from tracereel.resilience.wrapped_functions import Classes, asked, error_text

TIMEOUT: Final = "timeout"
ERROR: Final = "error"
LOW_CONFIDENCE: Final = "low_confidence"

NEVER: Final = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, SystemExit)
"""Exceptions that request a stop; never retried."""

MAX_DELAY: Final = 31_536_000.0
"""Longest delay (a year); sleep functions raise for much larger numbers."""

ConfidenceOf = Callable[[Any], float | None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Decision after a failed attempt: retry after `delay`, or None for no retry."""

    reason: str
    error: str
    delay: float | None
    exhausted: bool = False
    """Whether there is no retry only because all attempts are used up."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Options of `retry`."""

    attempts: int
    on: Classes
    never: Classes
    strategy: Strategy
    timeout: float | None
    min_confidence: float | None
    confidence_of: ConfidenceOf | None
    max_retry_after: float

    def after_error(self, error: BaseException, attempt: int) -> Verdict:
        """Decide after an attempt that raised."""
        reason = TIMEOUT if is_timeout(error) else ERROR
        text = error_text(error)
        if not self._covers(error):
            return Verdict(reason, text, None)
        if attempt >= self.attempts:
            return Verdict(reason, text, None, exhausted=True)
        wanted = retry_after(error)
        if wanted > self.max_retry_after:
            return Verdict(reason, text, None)
        return Verdict(reason, text, max(wanted, self._delay(attempt)))

    def after_result(self, confidence: float | None, attempt: int) -> Verdict | None:
        """Decide after an attempt that returned; None accepts the result."""
        least = self.min_confidence
        if least is None or confidence is None or confidence >= least:
            return None
        text = f"LowConfidence: {confidence:g} is below {least:g}"
        if attempt >= self.attempts:
            return Verdict(LOW_CONFIDENCE, text, None, exhausted=True)
        return Verdict(LOW_CONFIDENCE, text, self._delay(attempt))

    def _covers(self, error: BaseException) -> bool:
        if isinstance(error, (*NEVER, *self.never)):
            return False
        timed_out = self.timeout is not None and isinstance(error, TimeoutError)
        return timed_out or isinstance(error, self.on)

    def _delay(self, attempt: int) -> float:
        delay = values.real(asked("the strategy of a retry", self.strategy.delay, attempt))
        if delay is None:
            # A broken strategy must not cause retries without delay.
            delay = _DEFAULT.delay(attempt)
        return min(max(delay, 0.0), MAX_DELAY)


_DEFAULT: Final = exponential_backoff()


def is_timeout(error: BaseException) -> bool:
    """Return whether an error is a timeout, by class or class name.

    Timeout errors of most provider clients do not derive from TimeoutError.
    """
    return isinstance(error, TimeoutError) or any(
        "timeout" in kind.__name__.lower() for kind in type(error).__mro__
    )


def retry_after(error: BaseException) -> float:
    """Return the seconds in an error's `retry_after` or its response's header; 0 by default."""
    try:
        wanted: Any = getattr(error, "retry_after", None)
        if wanted is None:
            headers = getattr(getattr(error, "response", None), "headers", None)
            wanted = headers.get("retry-after") if headers is not None else None
        if isinstance(wanted, str):
            # Without a limit: the policy gives up if the delay is too long.
            return retry_after_seconds(wanted, now=time.time(), limit=math.inf) or 0.0
        if isinstance(wanted, timedelta):
            wanted = wanted.total_seconds()
        seconds = float(wanted) if wanted is not None else 0.0
    except Exception as raised:  # noqa: BLE001 - foreign attributes
        guard.pass_on(raised)
        return 0.0
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0
