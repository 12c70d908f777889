"""Rate limits of keys: token buckets of records and bytes per second."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracereel_collector.auth.shared_file import SharedFile
from tracereel_collector.errors import ThrottledError
from tracereel_collector.runtime.clock.sources import boot_id

BURST_SECONDS: Final = 10.0
"""Capacity of a bucket, in seconds of its rate."""
MAX_BUCKETS: Final = 20_000
MAX_WAIT_SECONDS: Final = 300
TRIM_EVERY: Final = 1_000
_TAKE: Final = (
    # Burst is ?3, rate ?4, amount ?5, now ?6. A level may become negative: the size of a request is
    # known only after it was read, so the request that empties the bucket is served and the next ones
    # wait. A time before `at` adds nothing: workers read the clock before they wait for the file.
    "INSERT INTO buckets VALUES (?1, ?2, ?3 - ?5, ?6) ON CONFLICT (key, unit) DO UPDATE"
    " SET level = min(?3, level + max(0.0, ?6 - at) * ?4) - ?5, at = max(at, ?6)"
)
_TRIM: Final = (
    "DELETE FROM buckets WHERE (key, unit) IN"
    " (SELECT key, unit FROM buckets ORDER BY at DESC LIMIT -1 OFFSET ?)"
)
_COLUMNS: Final = "key TEXT, unit TEXT, level REAL, at REAL, PRIMARY KEY (key, unit)"


class RateLimitedError(ThrottledError, code="rate_limited"):
    """The key has exceeded its rate limit."""

    reason = "rate"

    def __init__(self, message: str, *, wait_seconds: float, **options: str | None) -> None:
        super().__init__(message, **options)
        self.retry_after_seconds = max(1, min(MAX_WAIT_SECONDS, math.ceil(wait_seconds)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Most records and bytes per second of a key; 0 means no limit."""

    records: float = 0.0
    bytes: float = 0.0


class KeyLimits:
    """Token buckets of all keys, in a small file that all workers share."""

    def __init__(
        self, rates: Rates, path: Path | None = None, *, boot_id: Callable[[], str] = boot_id
    ) -> None:
        self._rates = {
            unit: rate
            for unit, rate in (("records", rates.records), ("bytes", rates.bytes))
            if rate > 0
        }
        self._file = SharedFile(
            path, table="buckets", columns=_COLUMNS, what="rate_limits", boot_id=boot_id
        )
        self._charges = 0

    def check(self, key_id: str, now: float) -> None:
        """Check that a key may start a request, else raise RateLimitedError with the delay."""
        for unit, rate in self._rates.items():
            rows = self._file.run(
                "SELECT level, at FROM buckets WHERE key=? AND unit=?", key_id, unit
            )
            for level, at in rows:
                wait = -(level + max(0.0, now - at) * rate) / rate
                if wait >= 0:
                    raise RateLimitedError(
                        f"this key has sent more than {rate:g} {unit} a second",
                        wait_seconds=wait,
                        hint="send more slowly, or raise TRACEREEL_RATE_" + unit.upper(),
                    )

    def charge(self, key_id: str, *, records: int = 0, size: int = 0, now: float) -> None:
        """Charge the records and bytes of a request."""
        for unit, amount in (("records", records), ("bytes", size)):
            if amount and unit in self._rates:
                rate = self._rates[unit]
                self._file.run(_TAKE, key_id, unit, rate * BURST_SECONDS, rate, amount, now)
                self._charges += 1
                if self._charges % TRIM_EVERY == 0:
                    self._file.run(_TRIM, MAX_BUCKETS)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()
