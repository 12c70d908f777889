"""How long to wait before the next attempt: strategies that give a delay for an attempt's number."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

EXPONENTIAL: Final = "exponential_backoff"
FIXED: Final = "fixed_delay"

_random: Final = random.Random()  # noqa: S311 - apart from the program's seed, and not a secret


class Strategy(Protocol):
    """What `retry` asks for delays; one of your own needs no more than this."""

    @property
    def name(self) -> str:
        """What events call it."""

    def delay(self, attempt: int, /) -> float:
        """Seconds to wait after the attempt of this number (from 1) has failed; MUST be >= 0."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that grow by a factor up to a maximum, each shortened by a random part of itself."""

    name: str
    base: float
    factor: float
    maximum: float
    jitter: float
    random: Callable[[], float]

    def full(self, attempt: int) -> float:
        """The delay before jitter."""
        try:
            grown = self.base * self.factor ** (attempt - 1)
        except OverflowError:
            grown = math.inf if self.base else 0.0
        return min(grown, self.maximum)

    def delay(self, attempt: int, /) -> float:
        """Between `1 - jitter` times the full delay and all of it, so never above the maximum."""
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
        jitter: the part of each delay that is random, from 0 (none) to 1 (all of it). With it, many
            callers that failed together do not come back together.
        random: gives numbers from 0 to 1.

    Raises:
        ValueError: a number that makes no sense as a delay.
    """
    _require("base", base, 0.0, math.inf)
    _require("factor", factor, 1.0, math.inf)
    _require("maximum", maximum, 0.0, math.inf)
    _require("jitter", jitter, 0.0, 1.0)
    return Backoff(EXPONENTIAL, base, factor, maximum, jitter, random)


def fixed_delay(
    seconds: float, *, jitter: float = 0.0, random: Callable[[], float] = _random.random
) -> Backoff:
    """Wait the same time after each attempt, less a random part of it where `jitter` is above 0.

    Raises:
        ValueError: a number that makes no sense as a delay.
    """
    _require("seconds", seconds, 0.0, math.inf)
    _require("jitter", jitter, 0.0, 1.0)
    return Backoff(FIXED, seconds, 1.0, seconds, jitter, random)


def _require(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most or math.isinf(value):
        bounds = f"at least {least}" if math.isinf(most) else f"from {least} to {most}"
        raise ValueError(f"{name} is a finite number, {bounds}; got {value!r}")
