"""Filters of the run search, as constant SQL with bound values."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tracereel._redact.event_redaction import owner_forms
from tracereel_collector.errors import InvalidFilterError
from tracereel_collector.query.costs import COST, UNPRICED, finest
from tracereel_collector.query.run.tree import STALE_SECONDS
from tracereel_collector.store.dialects.own import attributes_with
from tracereel_collector.store.rollups import MAX_TAG, TAG_KINDS
from tracereel_collector.store.sql import query

MAX_VALUES = 20
"""Maximum values of one filter."""
MAX_WORDS = 8
WIDEST: Final = 1.7e308
"""Bound used when no minimum or maximum of a score is given."""
OWNERS: Final = frozenset({"user", "session"})
"""Filters whose values are also found in their redacted form."""
CRASHED = "crashed"
"""Status of a run that never ended and whose emitters are gone."""
STATUSES: Final = (
    *("success", "partial_success", "failed", "cancelled"),
    *("running", CRASHED, "unknown"),
)
"""Standard statuses of a run; senders may use others."""
_WORD = re.compile(r"[0-9A-Za-z\u0080-\U0010ffff]+")
_PHRASE = re.compile(r'"([^"]*)"')

_TOKENS = finest("sum(s.call_tokens)", "sum(s.span_tokens)", "sum(s.execution_tokens)")
_ERRORS = "sum(s.errors) + sum(s.span_errors)"

COLUMNS: Final[dict[str, str]] = {
    "started": "toUnixTimestamp64Nano(min(s.started))",
    "duration_us": "intDiv(toUnixTimestamp64Nano(max(s.ended))"
    " - toUnixTimestamp64Nano(min(s.started)), 1000)",
    "nano_usd": COST,
    "unpriced": UNPRICED,
    "tokens": f"toInt64({_TOKENS})",
    # Entries of the timeline. Spans of the SDK are the same entries as their events.
    "events": "toInt64(sum(s.events) + sum(s.spans) + sum(s.span_events)"
    " - if(sum(s.events) > 0, sum(s.own_spans), 0))",
    "errors": f"""toInt64(multiIf(
        sum(s.events) = 0, {_ERRORS} + sum(s.own_span_errors),
        {_ERRORS} > 0, {_ERRORS},
        sum(s.failed_pipelines)))""",
    "model_calls": "toInt64(sum(s.model_calls) + sum(s.span_calls))",
    "retries": "toInt64(sum(s.retries))",
    "fallbacks": "toInt64(sum(s.fallbacks))",
    "confidence_ppm": "toInt64(min(s.confidence) * 1000000)",
    "status": f"""multiIf(
        sum(s.pipelines_open) > 0, 'running',
        startsWith(max(s.closing), '5'), substring(max(s.closing), 18),
        sum(s.executions_open) > 0, 'running',
        max(s.closing) >= '1', substring(max(s.closing), 18),
        max(s.closing) = '', if(sum(s.events) > 0, 'unknown', 'running'),
        -- Only spans inside of another one: it may be still going on. Clocks of senders may be ahead.
        least(max(s.ended), max(s.arrived)) > now64(9) - INTERVAL {STALE_SECONDS} SECOND, 'running',
        substring(max(s.closing), 18))""",
}
"""Properties of a run, as SQL over its rows of `trace_summaries`."""

SORTS: Final = {
    "started_at": "started",
    "duration_ms": "duration_us",
    "cost_usd": "nano_usd",
    "tokens": "tokens",
    "events": "events",
    "errors": "errors",
    "confidence": "confidence_ppm",
}
"""Sort keys and their columns; all are integers."""

RANGES: Final = {
    "duration_ms": ("duration_us", 1_000),
    "cost_usd": ("nano_usd", 10**9),
    "tokens": ("tokens", 1),
    "confidence": ("confidence_ppm", 10**6),
    "errors": ("errors", 1),
    "retries": ("retries", 1),
    "fallbacks": ("fallbacks", 1),
}
"""Measures with `min_…` and `max_…` filters: column, and column units per filter unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Conditions that one score of a run or a session must meet together; empty fields match everything."""

    names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    """Maximum. Booleans count as 1 or 0; categories and notes have no number."""

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of `scored_runs.sql` and `scored_sessions.sql`."""
        return {
            "score_names": list(self.names),
            "score_categories": list(self.categories),
            "score_bounded": int(self.least is not None or self.most is not None),
            "min_score": -WIDEST if self.least is None else self.least,
            "max_score": WIDEST if self.most is None else self.most,
        }


NOT_SCORED: Final = Scored()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Conditions that one decision of a run must meet together; empty fields match everything."""

    types: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    """Maximum confidence."""
    below_threshold: bool = False
    """Whether its confidence must be below its threshold."""

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of `decided_runs.sql`."""
        return {
            "decision_types": list(self.types),
            "decision_categories": list(self.categories),
            "decision_agents": list(self.agents),
            "decisions_chosen": list(self.chosen),
            "decision_bounded": int(self.least is not None or self.most is not None),
            "min_decision_confidence": -WIDEST if self.least is None else self.least,
            "max_decision_confidence": WIDEST if self.most is None else self.most,
            "below_threshold": int(self.below_threshold),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilters:
    """Filters of one search request."""

    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    statuses: tuple[str, ...] = ()
    least: dict[str, float] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)
    attributes: tuple[tuple[str, str], ...] = ()
    text: str = ""
    scored: Scored = NOT_SCORED
    decided: Decided = Decided()


@dataclass(slots=True)
class FilterSql:
    """SQL of filters: columns of a run, conditions on them and bound values."""

    columns: dict[str, str] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    first: str = ""
    """Condition on the rows of a run that is evaluated before other columns are read."""

    def needs(self, name: str) -> str:
        """Add a known column and return its name."""
        self.columns[name] = COLUMNS[name]
        return name

    def holds(self, condition: str, **parameters: Any) -> None:
        """Add a condition and its parameters."""
        self.conditions.append(condition)
        self.parameters |= parameters


def as_sql(filters: TraceFilters, **parameters: Any) -> FilterSql:
    """Return the SQL of filters; `parameters` are bound in addition.

    Raises:
        InvalidFilterError: a filter is unknown, has too many values, or its text has no word.
    """
    made = FilterSql(parameters=parameters)
    for kind, values in filters.tags.items():
        if kind not in TAG_KINDS:
            raise InvalidFilterError(
                f"{kind} is not searched by; expected one of {', '.join(TAG_KINDS)}"
            )
        _few(kind, values)
        forms = (
            [form for each in values for form in owner_forms(each)] if kind in OWNERS else values
        )
        tags = [f"{kind}:{value[:MAX_TAG]}" for value in forms]
        names = [f"{kind}_{number}" for number in range(len(tags))]
        found = " OR ".join(f"has(s.tags, {{{name}:String}})" for name in names)
        made.columns[f"is_{kind}"] = f"max({found})"
        made.holds(f"is_{kind}", **dict(zip(names, tags, strict=True)))
    if filters.statuses:
        _few("status", filters.statuses)
        # Crashed runs are stored as running; which of them crashed is determined after the search.
        statuses = ["running" if each == CRASHED else each for each in filters.statuses]
        made.holds(f"{made.needs('status')} IN {{statuses:Array(String)}}", statuses=statuses)
    for given, sign, end in ((filters.least, ">=", "min"), (filters.most, "<=", "max")):
        for name, value in given.items():
            column, units = RANGES[name]
            bound = max(-(2**62), min(2**62, round(value * units)))
            made.holds(
                f"{made.needs(column)} {sign} {{{end}_{name}:Int64}}", **{f"{end}_{name}": bound}
            )
            if name == "confidence":  # 2 means no confidence
                made.holds("confidence_ppm <= 1000000")
    _add_text(made, filters.text)
    _add_attributes(made, filters.attributes)
    _add_scored(made, filters.scored)
    _add_decided(made, filters.decided)
    return made


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without duplicates.

    Raises:
        InvalidFilterError: the text has no word, or too many.
    """
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))
    if text.strip() and not words:
        raise InvalidFilterError(f"q: {text[:80]!r} has no word to search for")
    _few("q", words, MAX_WORDS)
    return words


def phrases_and_words(text: str) -> tuple[list[str], list[str]]:
    """Return what stands in quotes, and the other words in lower case without duplicates."""
    phrases = [phrase for phrase in _PHRASE.findall(text) if _WORD.search(phrase)]
    words = [word.lower() for word in _WORD.findall(_PHRASE.sub(" ", text))]
    return phrases, list(dict.fromkeys(words))


def _add_text(made: FilterSql, text: str) -> None:
    phrases, words = phrases_and_words(text)
    if text.strip() and not (phrases or words):
        raise InvalidFilterError(f"q: {text[:80]!r} has no word to search for")
    _few("q", (*words, *phrases), MAX_WORDS)
    for number, word in enumerate(words):
        name = f"word_{number}"
        found = _IN_TEXTS % f"hasAllTokens(text, {{{name}:Array(String)}})"
        made.columns[name] = f"max(s.trace_id GLOBAL IN ({found}))"
        made.holds(name, **{name: [word]})
    for number, phrase in enumerate(phrases):
        name = f"phrase_{number}"
        found = _IN_TEXTS % (
            f"hasAllTokens(text, {{{name}_words:Array(String)}})"
            f" AND positionCaseInsensitiveUTF8(text, {{{name}:String}}) > 0"
        )
        made.columns[name] = f"max(s.trace_id GLOBAL IN ({found}))"
        tokens = [word.lower() for word in _WORD.findall(phrase)]
        made.holds(name, **{name: phrase, f"{name}_words": tokens})


def _add_attributes(made: FilterSql, attributes: Iterable[tuple[str, str]]) -> None:
    attributes = tuple(attributes)
    _few("attribute", attributes, MAX_WORDS)
    for number, (key, value) in enumerate(attributes):
        name = f"attribute_{number}"
        found = _WITH_ATTRIBUTE.replace("$", name) % attributes_with(value)
        made.columns[name] = f"max(s.trace_id GLOBAL IN ({found}))"
        made.holds(name, **{f"{name}_key": key, f"{name}_value": value})


def _add_scored(made: FilterSql, scored: Scored) -> None:
    if scored == NOT_SCORED:
        return
    check_scored(scored)
    # Few runs have scores, so this condition excludes most rows early.
    made.first = f"s.trace_id GLOBAL IN ({query('scored_runs')})"
    made.parameters |= scored.parameters()


def check_scored(scored: Scored) -> None:
    """Refuse too many names or categories of scores."""
    _few("score", scored.names)
    _few("score_category", scored.categories)


def _add_decided(made: FilterSql, decided: Decided) -> None:
    if decided == Decided():
        return
    _few("decision_type", decided.types)
    _few("decision_category", decided.categories)
    _few("decision_agent", decided.agents)
    _few("decision_chosen", decided.chosen)
    made.columns["decided"] = f"max(s.trace_id GLOBAL IN ({query('decided_runs')}))"
    made.holds("decided", **decided.parameters())


_IN_TEXTS = """SELECT trace_id FROM trace_texts
    WHERE tenant = {tenant:String} AND hour >= {first_hour:DateTime('UTC')}
      AND hour <= {last_hour:DateTime('UTC')} AND %s"""
_WITH_ATTRIBUTE = """SELECT trace_id FROM agent_events
    WHERE tenant = {tenant:String} AND toDate(ingested_at) >= {first_day:Date}
      AND position(payload, {$_key:String}) > 0
      AND (JSONExtractString(payload, {$_key:String}) = {$_value:String}
        OR JSONExtractRaw(payload, {$_key:String}) = {$_value:String})
    UNION ALL
    SELECT TraceId FROM whole_spans
    WHERE TenantId = {tenant:String} AND toDate(IngestedAt) >= {first_day:Date}
      AND (%s[{$_key:String}] = {$_value:String}
        OR ResourceAttributes[{$_key:String}] = {$_value:String})"""


def _few(name: str, values: Iterable[object], most: int = MAX_VALUES) -> None:
    count = len(tuple(values))
    if count > most:
        raise InvalidFilterError(f"{name}: {count} values at once; expected at most {most}")
