"""Query parameters and trace ids of both APIs, with Jaeger's names, defaults and messages."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tracereel.events import TRACE_ID_PATTERN
from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.jaeger.reader import JaegerSearch, otel_id
from tracereel_collector.query.window import parse_time

LOOKBACK_NANO = 2 * 86_400 * 10**9
DEPENDENCY_LOOKBACK_MILLI = 24 * 3_600_000
DEFAULT_LIMIT = 100
MAX_TAGS = 100
MILLISECONDS_BELOW = 10**14
"""Times below this are in milliseconds; as microseconds they would be before March 1973."""

MAX_DURATION_LENGTH = 100

_DURATION = re.compile(r"[+-]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:ns|us|µs|μs|ms|s|m|h))+|[+-]?0")
_PART = re.compile(r"(\d++(?:\.\d*+)?|\.\d++)(ns|us|µs|μs|ms|s|m|h)")
_UNITS = {
    "ns": 1,
    **dict.fromkeys(("us", "µs", "μs"), 1_000),
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3_600 * 10**9,
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,18}))?([Zz]|[+-]\d\d:\d\d)")
_RUN = re.compile(TRACE_ID_PATTERN)
_TRUE, _FALSE = {"1", "t", "T", "TRUE", "true", "True"}, {"0", "f", "F", "FALSE", "false", "False"}


def check_id(given: str) -> str:
    """Return an id of any accepted form; refuse others."""
    if otel_id(given) is None and not _RUN.fullmatch(given):
        raise BadRequestError(
            f"trace id {given[:140]!r} is not valid; expected up to 32 hexadecimal digits, 16 bytes"
            " in base64, or the trace_id of a run"
        )
    return given


def duration(text: str) -> int:
    """Parse a Go duration such as `1.5s` or `2m30s` into nanoseconds."""
    if len(text) > MAX_DURATION_LENGTH or not _DURATION.fullmatch(text):
        raise ValueError(
            f"invalid duration {text[:40]!r}; expected a form like 1.5s, 100ms or 2m30s"
        )
    total, place = 0.0, int(text[0] in "+-")
    while part := _PART.match(text, place):
        total += float(part[1]) * _UNITS[part[2]]
        place = part.end()
    return round(-total if text.startswith("-") else total)


def integer(text: str) -> int:
    """Parse an integer."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"invalid syntax {text[:40]!r}; expected a whole number")
    return int(text)


def boolean(text: str) -> bool:
    """Parse a boolean as Go does."""
    if text not in _TRUE | _FALSE:
        raise ValueError(f"invalid syntax {text[:40]!r}; expected true or false")
    return text in _TRUE


def moment(text: str) -> int:
    """Parse an RFC 3339 time with up to nanosecond precision into unix nanoseconds."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"cannot parse {text[:40]!r}; expected a form like 2026-01-23T10:00:00.5Z")
    date, clock, fraction, zone = found.groups()
    return parse_time(f"{date}T{clock}{zone.upper()}") + int((fraction or "").ljust(9, "0")[:9])


def optional(given: Mapping[str, str], name: str, read: Any, default: Any) -> Any:
    """Return a parameter of the legacy API; the default if it is absent or empty."""
    return _parsed(given.get(name), read, default, f"unable to parse param '{name}'")


def _parsed(text: str | None, read: Any, default: Any, problem: str) -> Any:
    if not text:
        return default
    try:
        return read(text)
    except ValueError as error:
        raise BadRequestError(f"{problem}: {error}") from error


def trace_time(text: str) -> int:
    """Parse microseconds, or milliseconds as sent by Grafana, into unix nanoseconds."""
    number = integer(text)
    return number * (1_000_000 if number < MILLISECONDS_BELOW else 1_000)


def legacy_search(
    given: Mapping[str, str], *, tag: Sequence[str], tags: Sequence[str], by_id: bool, now: int
) -> JaegerSearch:
    """Parse the parameters of `GET /api/traces`."""

    def micro(text: str) -> int:
        return integer(text) * 1_000

    search = JaegerSearch(
        service=given.get("service") or "",
        operation=given.get("operation") or "",
        start=optional(given, "start", micro, now - LOOKBACK_NANO),
        end=optional(given, "end", micro, now),
        tags=_tags(tag, tags),
        # 0 or less means the default.
        limit=max(0, optional(given, "limit", integer, 0)) or DEFAULT_LIMIT,
        min_duration=optional(given, "minDuration", duration, 0),
        max_duration=optional(given, "maxDuration", duration, 0),
    )
    if not by_id and not search.service:
        raise BadRequestError("parameter 'service' is required")
    if 0 != search.max_duration < search.min_duration:
        raise BadRequestError("'maxDuration' should be greater than 'minDuration'")
    return search


def _tags(simple: Sequence[str], documents: Sequence[str]) -> dict[str, str]:
    found = {}
    for each in simple:
        key, colon, value = each.partition(":")
        if not colon:
            raise BadRequestError(
                f"malformed 'tag' parameter, expecting key:value, received: {each[:80]}"
            )
        found[key] = value
    for each in documents:
        try:
            found |= msgspec.json.decode(each, type=dict[str, str])
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise BadRequestError(
                f"malformed 'tags' parameter, cannot unmarshal JSON: {error}"
            ) from error
    return _few(found)


def _few(tags: dict[str, str]) -> dict[str, str]:
    if len(tags) > MAX_TAGS:
        raise BadRequestError(f"{len(tags)} tags are too many; expected at most {MAX_TAGS}")
    return tags


class V3Parameters:
    """Parameters of API v3, by name or by the deprecated name with underscores."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def text(self, name: str, *others: str) -> str:
        """Return the first nonempty value."""
        return self._found(name, *others)[1]

    def read(self, read: Any, default: Any, name: str, *others: str) -> Any:
        """Return the parsed value, or the default."""
        used, text = self._found(name, *others)
        return _parsed(text, read, default, f"malformed parameter {used}")

    def _found(self, name: str, *others: str) -> tuple[str, str]:
        names = (name, _snake(name), *others)
        return next(
            ((each, self._given[each]) for each in names if self._given.get(each)), ("", "")
        )

    def window(self) -> tuple[int | None, int | None]:
        """Return `startTime` and `endTime`, each `None` if absent."""
        start, end = self.read(moment, None, "startTime"), self.read(moment, None, "endTime")
        if start is not None and end is not None and start > end:
            raise self._above("startTime", "endTime")
        return start, end

    def _above(self, low: str, high: str) -> BadRequestError:
        """Return the error for an inverted range, which would otherwise look like an empty result."""
        (low, least), (high, most) = self._found(low), self._found(high)
        return BadRequestError(
            f"{low}: {least[:40]} is above {high}: {most[:40]}; expected at most that"
        )

    def search(self) -> JaegerSearch:
        """Parse the parameters of `GET /api/v3/traces` and `/api/v3/trace-summaries`."""
        if self.text("query.filter"):
            raise BadRequestError("query.filter is not supported; expected the other parameters")
        start = self.read(moment, None, "query.startTimeMin")
        end = self.read(moment, None, "query.startTimeMax")
        if start is None or end is None:
            raise BadRequestError("query.startTimeMin and query.startTimeMax are required")
        if start >= end:
            raise BadRequestError(
                "query.startTimeMin must be before query.startTimeMax:"
                f" {self.text('query.startTimeMin')} is not before {self.text('query.startTimeMax')}"
            )
        shortest = self.read(duration, 0, "query.durationMin")
        longest = self.read(duration, 0, "query.durationMax")
        for name, length in (("query.durationMin", shortest), ("query.durationMax", longest)):
            if length < 0:
                raise BadRequestError(
                    f"malformed parameter {self._found(name)[0]}: {self.text(name)[:40]!r} is below 0;"
                    " expected a duration like 1.5s"
                )
        # A maximum of 0 means no maximum.
        if 0 != longest < shortest:
            raise self._above("query.durationMin", "query.durationMax")
        depth = self.read(integer, 0, "query.searchDepth", "query.num_traces")
        return JaegerSearch(
            service=self.text("query.serviceName"),
            operation=self.text("query.operationName"),
            start=start,
            end=end - 1,
            tags=self.read(_attributes, {}, "query.attributes"),
            limit=max(0, depth) or DEFAULT_LIMIT,
            min_duration=shortest,
            max_duration=longest,
        )


def _attributes(text: str) -> dict[str, str]:
    return _few(msgspec.json.decode(text, type=dict[str, str]))


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter.group().lower()}", name)
