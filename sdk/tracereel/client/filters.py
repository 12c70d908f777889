"""Keyword filters for runs and for the live tail."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict

Words = str | Sequence[str]
"""One value, or several alternatives."""
Moment = datetime | str
"""Time, or text that the collector can parse."""


class Filters(TypedDict, total=False):
    """Filters of both the search and the live tail."""

    q: str
    """Words that must all occur; phrases are in double quotes."""
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
    """`key=value`; several must all match."""
    min_duration_ms: float
    max_duration_ms: float
    min_cost_usd: float
    max_cost_usd: float
    min_tokens: float
    max_tokens: float
    min_confidence: float
    max_confidence: float


class ScoredFilters(TypedDict, total=False):
    """Filters by time and scores of runs and sessions."""

    since: Moment
    until: Moment
    score: Words
    """Names of scores; one score must match this and all other score filters."""
    score_category: Words
    min_score: float
    """Minimum value; `true` is 1, `false` is 0."""
    max_score: float


class SessionFilters(ScoredFilters, total=False):
    """Filters of sessions."""

    user: str


class RunFilters(Filters, ScoredFilters, total=False):
    """Filters of the run search."""

    decision_type: Words
    """Types of decisions; one decision must match this and all other decision filters."""
    decision_category: Words
    decision_agent: Words
    decision_chosen: Words
    min_decision_confidence: float
    max_decision_confidence: float
    below_threshold: bool
    """Whether the confidence of the decision was below its threshold."""
    min_errors: float
    min_retries: float
    min_fallbacks: float


class TailFilters(Filters, total=False):
    """Filters of the live tail."""

    type: Words
    """Event types; a trailing dot matches a prefix, `otel.span` matches spans of others."""
    trace: Words


_RENAMED: Final = {"since": "from", "until": "to"}


def checked(
    filters: Mapping[str, Any], kind: type[Filters] | type[SessionFilters]
) -> Mapping[str, Any]:
    """Return the filters if all are known; an older collector would ignore a misspelt one."""
    known = kind.__annotations__.keys()
    if unknown := sorted(set(filters) - known):
        raise TypeError(f"there is no filter {unknown[0]!r}; expected {', '.join(sorted(known))}")
    return filters


def as_params(
    filters: Mapping[str, Any], *, renamed: Mapping[str, str] = _RENAMED
) -> dict[str, Any]:
    """Convert filters to request parameters."""
    return {
        renamed.get(name, name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in filters.items()
        if value is not None
    }
