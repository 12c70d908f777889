"""Delays between delivery attempts."""

import math
import random
from email.utils import parsedate_to_datetime
from typing import Final

MIN_BACKOFF: Final = 0.1
MAX_BACKOFF: Final = 30.0
MAX_RETRY_AFTER: Final = 300.0
_jitter: Final = random.Random()  # noqa: S311 - independent of the program's seed


def backoff(failures: int, retry_after: float | None) -> float:
    """Return the seconds to wait after consecutive failures, at least `retry_after`."""
    delay = min(MAX_BACKOFF, MIN_BACKOFF * 2.0 ** min(failures - 1, 16))
    return max(delay * _jitter.uniform(0.5, 1.0), retry_after or 0.0)


def retry_after_seconds(
    text: str | None, *, now: float, limit: float = MAX_RETRY_AFTER
) -> float | None:
    """Parse a `Retry-After` number or date into seconds up to a limit; None if absent or invalid."""
    try:
        seconds = float(text or "nan")
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text or "").timestamp() - now
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(seconds, 0.0), limit) if math.isfinite(seconds) else None
