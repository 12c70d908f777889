"""How much a key may send: token buckets of records and bytes per second."""

import math
import os
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from tracereel_collector.errors import ThrottledError

BURST_SECONDS: Final = 10.0
"""What a quiet key may save up: so many seconds' worth at once."""
MAX_BUCKETS: Final = 20_000
MAX_WAIT_SECONDS: Final = 300
TRIM_EVERY: Final = 1_000
_TAKE: Final = (
    # As `TokenBucket.take`: burst is ?3, rate ?4, amount ?5, now ?6.
    "INSERT INTO buckets VALUES (?1, ?2, ?3 - ?5, ?6) ON CONFLICT (key, unit) DO UPDATE"
    " SET level = min(?3, level + max(0.0, ?6 - at) * ?4) - ?5, at = ?6"
)
_TRIM: Final = (
    "DELETE FROM buckets WHERE (key, unit) IN"
    " (SELECT key, unit FROM buckets ORDER BY at DESC LIMIT -1 OFFSET ?)"
)

log = structlog.get_logger(__name__)


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
    """The buckets of all keys, in a small file that all workers share; never synced, never precious."""

    def __init__(self, rates: Rates, path: Path | None = None) -> None:
        self._rates = {
            unit: rate
            for unit, rate in (("records", rates.records), ("bytes", rates.bytes))
            if rate > 0
        }
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._charges = 0

    def check(self, key_id: str, now: float) -> None:
        """Let a request of this key begin.

        Raises:
            RateLimitedError: it has to wait first; says how long.
        """
        for unit, rate in self._rates.items():
            rows = self._run("SELECT level, at FROM buckets WHERE key=? AND unit=?", key_id, unit)
            for level, at in rows:
                wait = -(level + max(0.0, now - at) * rate) / rate
                if wait >= 0:
                    raise RateLimitedError(
                        f"this key has sent more than {rate:g} {unit} a second",
                        wait_seconds=wait,
                        hint="send more slowly, or raise TRACEREEL_RATE_" + unit.upper(),
                    )

    def charge(self, key_id: str, *, records: int = 0, size: int = 0, now: float) -> None:
        """Note what a request turned out to hold."""
        for unit, amount in (("records", records), ("bytes", size)):
            if amount and unit in self._rates:
                rate = self._rates[unit]
                self._run(_TAKE, key_id, unit, rate * BURST_SECONDS, rate, amount, now)
                self._charges += 1
                if self._charges % TRIM_EVERY == 0:
                    self._run(_TRIM, MAX_BUCKETS)

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, statement: str, *parameters: object) -> list[tuple[float, float]]:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = _open(self._path)
                return self._connection.execute(statement, parameters).fetchall()
            except sqlite3.Error as error:
                # A limit that cannot be held must not keep anybody's data out.
                log.warning("rate_limits_unreadable", reason=str(error))
                return []


def _open(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(
        path or ":memory:", isolation_level=None, check_same_thread=False, timeout=0.2
    )
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS buckets"
        " (key TEXT, unit TEXT, level REAL, at REAL, PRIMARY KEY (key, unit)) WITHOUT ROWID"
    )
    return connection
