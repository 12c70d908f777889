"""What runs and live records are chosen by, as keyword arguments."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict

Words = str | Sequence[str]
"""One value, or several of which any will do."""
Moment = datetime | str
"""A moment, or text that the collector understands."""


class Filters(TypedDict, total=False):
    """What both the search and the live tail know."""

    q: str
    """Words, all of which must be there, and phrases in double quotes."""
    status: Words
    agent: Words
    pipeline: Words
    model: Words
    provider: Words
    service: Words
    session: Words
    user: Words
    error: Words
    category: Words
    code: Words
    attribute: Words
    """`key=value`; several must all hold."""
    min_duration_ms: float
    max_duration_ms: float
    min_cost_usd: float
    max_cost_usd: float
    min_tokens: float
    max_tokens: float
    min_confidence: float
    max_confidence: float


class RunFilters(Filters, total=False):
    """What runs are searched by."""

    since: Moment
    until: Moment
    score: Words
    """Names of scores; one score must be of such a name and all that is asked of it here."""
    score_category: Words
    min_score: float
    """`true` is 1, `false` 0."""
    max_score: float
    min_errors: float
    min_retries: float
    min_fallbacks: float


class TailFilters(Filters, total=False):
    """What live records are chosen by."""

    type: Words
    """Event types; one that ends in a dot means all that begin so, `otel.span` the spans of others."""
    trace: Words


_RENAMED: Final = {"since": "from", "until": "to"}


def checked(filters: Mapping[str, Any], kind: type[Filters]) -> Mapping[str, Any]:
    """The same; an older collector would not know of a misspelt filter, and find everything.

    Raises:
        TypeError: one of them does not exist.
    """
    known = kind.__annotations__.keys()
    if unknown := sorted(set(filters) - known):
        raise TypeError(f"there is no filter {unknown[0]!r}; expected {', '.join(sorted(known))}")
    return filters


def as_params(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Filters as the parameters of a request."""
    return {
        _RENAMED.get(name, name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in filters.items()
        if value is not None
    }
