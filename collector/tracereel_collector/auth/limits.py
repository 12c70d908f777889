"""How much a key may send: token buckets of records and bytes per second."""

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from tracereel_collector.errors import ThrottledError

BURST_SECONDS: Final = 10.0
"""What a quiet key may save up: so many seconds' worth at once."""
MAX_BUCKETS: Final = 20_000
MAX_WAIT_SECONDS: Final = 300


class RateLimitedError(ThrottledError):
    """This key has sent more than its share."""

    code = "rate_limited"

    def __init__(self, message: str, *, wait_seconds: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = max(1, min(MAX_WAIT_SECONDS, math.ceil(wait_seconds)))


class TokenBucket:
    """Fills at a rate up to a burst; what is taken may leave it in debt, and then it must fill first.

    The size of a request is known only once it has been read, so the request that empties the bucket
    is served and the following ones wait. Over any time t at most `burst + rate * t` and the size
    of one request go through.
    """

    def __init__(self, *, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = now

    def wait(self, now: float) -> float:
        """Seconds until something may be taken again; 0 when it may now."""
        self._fill(now)
        return 0.0 if self._level > 0 else max(-self._level, 1e-9) / self._rate

    def take(self, amount: float, now: float) -> None:
        """Take so much, into debt where there is less."""
        self._fill(now)
        self._level -= amount

    def _fill(self, now: float) -> None:
        # A clock that steps back gives nothing and takes nothing.
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Most records and bytes a key may send per second; 0 is no limit."""

    records: float = 0.0
    bytes: float = 0.0


class KeyLimits:
    """The buckets of all keys; those unused the longest are forgotten, which fills them."""

    def __init__(self, rates: Rates) -> None:
        self._rates = {
            unit: rate
            for unit, rate in (("records", rates.records), ("bytes", rates.bytes))
            if rate > 0
        }
        self._buckets: OrderedDict[tuple[str, str], TokenBucket] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, key_id: str, now: float) -> None:
        """Let a request of this key begin.

        Raises:
            RateLimitedError: it has to wait first; says how long.
        """
        for unit, rate in self._rates.items():
            with self._lock:
                wait = self._bucket(key_id, unit, now).wait(now)
            if wait > 0:
                raise RateLimitedError(
                    f"this key has sent more than {rate:g} {unit} a second",
                    wait_seconds=wait,
                    hint="send more slowly, or raise TRACEREEL_RATE_" + unit.upper(),
                )

    def charge(self, key_id: str, *, records: int = 0, size: int = 0, now: float) -> None:
        """Note what a request turned out to hold."""
        for unit, amount in (("records", records), ("bytes", size)):
            if amount and unit in self._rates:
                with self._lock:
                    self._bucket(key_id, unit, now).take(amount, now)

    def _bucket(self, key_id: str, unit: str, now: float) -> TokenBucket:
        bucket = self._buckets.get((key_id, unit))
        if bucket is None:
            rate = self._rates[unit]
            bucket = TokenBucket(rate=rate, burst=rate * BURST_SECONDS, now=now)
            self._buckets[key_id, unit] = bucket
            if len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end((key_id, unit))
        return bucket
