"""How long delivery rests between attempts."""

import random
from typing import Final

MIN_BACKOFF: Final = 0.1
MAX_BACKOFF: Final = 30.0
_jitter: Final = random.Random()  # noqa: S311 - and not the program's, which it may have seeded


def backoff(failures: int, retry_after: float | None) -> float:
    """Seconds to wait after so many failures in a row; the destination may ask for more."""
    delay = min(MAX_BACKOFF, MIN_BACKOFF * 2.0 ** min(failures - 1, 16))
    return max(delay * _jitter.uniform(0.5, 1.0), retry_after or 0.0)
