"""Retry strategies: the delay after each attempt."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

EXPONENTIAL: Final = "exponential_backoff"
FIXED: Final = "fixed_delay"

_random: Final = random.Random()  # noqa: S311 - independent of the program's seed, and not a secret


class Strategy(Protocol):
    """Interface of retry strategies."""

    @property
    def name(self) -> str:
        """Name of the strategy in events."""

    def delay(self, attempt: int, /) -> float:
        """Return the seconds (>= 0) to wait after this failed attempt (from 1)."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Strategy with delays that grow by a factor up to a maximum, less random jitter."""

    name: str
    base: float
    factor: float
    maximum: float
    jitter: float
    random: Callable[[], float]

    def full(self, attempt: int) -> float:
        """Return the delay before jitter."""
        try:
            grown = self.base * self.factor ** (attempt - 1)
        except OverflowError:
            grown = math.inf if self.base else 0.0
        return min(grown, self.maximum)

    def delay(self, attempt: int, /) -> float:
        """Return a delay between `1 - jitter` times the full delay and the full delay."""
        full = self.full(attempt)
        return max(0.0, full - full * self.jitter * self.random())


def exponential_backoff(
    base: float = 1.0,
    *,
    factor: float = 2.0,
    maximum: float = 30.0,
    jitter: float = 0.5,
    random: Callable[[], float] = _random.random,
) -> Backoff:
    """Wait `base` seconds, then `factor` times longer after each attempt, up to `maximum`.

    Args:
        jitter: random share of each delay, from 0 to 1. It spreads out callers that failed at the
            same time.
        random: returns numbers from 0 to 1.

    Raises:
        ValueError: a number is out of range.
    """
    _require("base", base, 0.0, math.inf)
    _require("factor", factor, 1.0, math.inf)
    _require("maximum", maximum, 0.0, math.inf)
    _require("jitter", jitter, 0.0, 1.0)
    return Backoff(EXPONENTIAL, base, factor, maximum, jitter, random)


def fixed_delay(
    seconds: float, *, jitter: float = 0.0, random: Callable[[], float] = _random.random
) -> Backoff:
    """Wait the same time after each attempt, less a random share (`jitter`).

    Raises:
        ValueError: a number is out of range.
    """
    _require("seconds", seconds, 0.0, math.inf)
    _require("jitter", jitter, 0.0, 1.0)
    return Backoff(FIXED, seconds, 1.0, seconds, jitter, random)


def _require(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most or math.isinf(value):
        bounds = f"at least {least}" if math.isinf(most) else f"from {least} to {most}"
        raise ValueError(f"{name} is a finite number, {bounds}; got {value!r}")
