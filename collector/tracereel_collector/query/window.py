"""Time windows and their parameters: a time, or an age such as `24h`."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from tracereel._runtime.clock import rfc3339
from tracereel_collector.errors import InvalidFilterError

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
_AGO = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": SECOND, "m": 60 * SECOND, "h": HOUR, "d": DAY, "w": 7 * DAY}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (2**32 - 1) * SECOND
"""Latest time that the tables' sort columns can represent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Half-open time range in unix nanoseconds; either end may be open."""

    start: int | None = None
    end: int | None = None

    def shown(self) -> dict[str, str | None]:
        """Return the window as shown in responses."""
        return {"from": iso(self.start), "to": iso(self.end)}


def parse_window(
    start: str | None,
    end: str | None,
    *,
    now: int,
    default: int | None = None,
    names: tuple[str, str] = ("from", "to"),
) -> Window:
    """Parse a window; without a start, it covers `default` nanoseconds up to its end.

    Raises:
        InvalidFilterError: a time is malformed, or the end is not after the start.
    """
    until = None if end is None else _moment(names[1], end, now)
    since = None if start is None else _moment(names[0], start, now)
    if since is None and default is not None:
        since = (now if until is None else until) - default
    if since is not None and until is not None and until <= since:
        raise InvalidFilterError(f"{names[1]}: {end!r} is not after {names[0]}: {start!r}")
    return Window(start=since, end=until)


def _moment(name: str, text: str, now: int) -> int:
    if ago := _AGO.fullmatch(text):
        return max(0, now - int(ago[1]) * _UNITS[ago[2]])
    try:
        moment = parse_time(text)
    except (ValueError, OverflowError) as error:
        raise InvalidFilterError(
            f"{name}: {text[:40]!r} is no moment; expected 2026-11-16T02:00:00Z,"
            " or how long ago: 90m, 24h, 7d"
        ) from error
    return min(max(0, moment), _LAST)


def parse_time(text: str) -> int:
    """Parse an ISO 8601 time, UTC by default, into unix nanoseconds."""
    read = datetime.fromisoformat(text.replace(" ", "+"))  # an unescaped `+` arrives as a space
    since = (read if read.tzinfo is not None else read.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds * 1_000


def iso(unix_nano: int | None) -> str | None:
    """Return a time as shown in responses."""
    return None if unix_nano is None else rfc3339(unix_nano)


def hour_of(unix_nano: int) -> str:
    """Return the start of the hour of a time, in ClickHouse format."""
    bounded = min(max(0, unix_nano), _LAST)
    return datetime.fromtimestamp(bounded // HOUR * 3600, UTC).strftime("%Y-%m-%d %H:%M:%S")
