"""When to try again: a pure decision from the outcome of an attempt and its number."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from tracereel import _guard, _values
from tracereel.resilience._functions import Classes, asked, error_text
from tracereel.resilience.backoff import Strategy, exponential_backoff

TIMEOUT: Final = "timeout"
ERROR: Final = "error"
LOW_CONFIDENCE: Final = "low_confidence"

NEVER: Final = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, SystemExit)
"""Somebody wants this to stop."""

MAX_DELAY: Final = 31_536_000.0
"""A year: the functions that sleep raise for numbers much larger."""

ConfidenceOf = Callable[[Any], float | None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows an attempt that was not good: another after `delay`, or (null) none."""

    reason: str
    error: str
    delay: float | None
    exhausted: bool = False
    """No other only because all attempts are used up."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What `retry` was given."""

    attempts: int
    on: Classes
    never: Classes
    strategy: Strategy
    timeout: float | None
    min_confidence: float | None
    confidence_of: ConfidenceOf | None
    max_retry_after: float

    def after_error(self, error: BaseException, attempt: int) -> Verdict:
        """An attempt has raised."""
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
        """An attempt has returned; null where its result is good enough, or nobody knows."""
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
        delay = _values.real(asked("the strategy of a retry", self.strategy.delay, attempt))
        if delay is None:
            delay = _DEFAULT.delay(attempt)  # rather than hammering without a pause
        return min(max(delay, 0.0), MAX_DELAY)


_DEFAULT: Final = exponential_backoff()


def is_timeout(error: BaseException) -> bool:
    """By class, or by its name: the clients of most providers do not derive from TimeoutError."""
    return isinstance(error, TimeoutError) or any(
        "timeout" in kind.__name__.lower() for kind in type(error).__mro__
    )


def retry_after(error: BaseException) -> float:
    """The seconds an error asks to wait: its `retry_after`, or that header of its response; else 0."""
    try:
        wanted: Any = getattr(error, "retry_after", None)
        if wanted is None:
            headers = getattr(getattr(error, "response", None), "headers", None)
            wanted = headers.get("retry-after") if headers is not None else None
        if isinstance(wanted, timedelta):
            wanted = wanted.total_seconds()
        seconds = float(wanted) if wanted is not None else 0.0
    except Exception as raised:  # noqa: BLE001 - attributes of theirs; a date in the header is no number
        _guard.pass_on(raised)
        return 0.0
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0
