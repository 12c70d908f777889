"""What runs are searched by: each filter as SQL of our own, its values as bound parameters."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.costs import COST
from tracereel_collector.query.scored import Scored
from tracereel_collector.store.rollups import TAG_KINDS
from tracereel_collector.store.sql import query

MAX_VALUES = 20
"""Of one filter."""
MAX_WORDS = 8
CRASHED = "crashed"
"""The status of a run that never ended and whose processes are gone."""
STATUSES: Final = (
    *("success", "partial_success", "failed", "cancelled"),
    *("running", CRASHED, "unknown"),
)
"""How a run can be; senders may have others of their own."""
_WORD = re.compile(r"[0-9A-Za-z\u0080-\U0010ffff]+")
_PHRASE = re.compile(r'"([^"]*)"')

_TOKENS = (
    "multiIf(sum(s.call_tokens) != 0, sum(s.call_tokens),"
    " sum(s.span_tokens) != 0, sum(s.span_tokens), sum(s.execution_tokens))"
)
"""Model calls first, as with what they cost."""

COLUMNS: Final[dict[str, str]] = {
    "started": "toUnixTimestamp64Nano(min(s.started))",
    "duration_ms": "intDiv(toUnixTimestamp64Nano(max(s.ended))"
    " - toUnixTimestamp64Nano(min(s.started)), 1000000)",
    "nano_usd": COST,
    "tokens": f"toInt64({_TOKENS})",
    "events": "toInt64(sum(s.events))",
    "errors": "toInt64(sum(s.errors))",
    "retries": "toInt64(sum(s.retries))",
    "fallbacks": "toInt64(sum(s.fallbacks))",
    "confidence_ppm": "toInt64(min(s.confidence) * 1000000)",
    "status": """multiIf(
        sum(s.pipelines_open) > 0, 'running',
        startsWith(max(s.closing), '2'), substring(max(s.closing), 18),
        sum(s.executions_open) > 0, 'running',
        max(s.closing) != '', substring(max(s.closing), 18),
        sum(s.events) > 0, 'unknown',
        'running')""",
}
"""What is known of a run, over its rows of `trace_summaries`."""

SORTS: Final = {
    "started_at": "started",
    "duration_ms": "duration_ms",
    "cost_usd": "nano_usd",
    "tokens": "tokens",
    "events": "events",
    "errors": "errors",
    "confidence": "confidence_ppm",
}
"""What a list may be sorted by, and the column it is: whole numbers all of them."""

RANGES: Final = {
    "duration_ms": ("duration_ms", 1),
    "cost_usd": ("nano_usd", 10**9),
    "tokens": ("tokens", 1),
    "confidence": ("confidence_ppm", 10**6),
    "errors": ("errors", 1),
    "retries": ("retries", 1),
    "fallbacks": ("fallbacks", 1),
}
"""What may be asked for as `min_…` and `max_…`, its column, and how many of its units make one of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """One question; nothing in it has been in SQL yet."""

    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    statuses: tuple[str, ...] = ()
    least: dict[str, float] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)
    attributes: tuple[tuple[str, str], ...] = ()
    text: str = ""
    scored: Scored = Scored()


@dataclass(slots=True)
class Condition:
    """SQL made of filters: columns that a run needs, what must hold of them, and the values."""

    columns: dict[str, str] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    first: str = ""
    """What a row of the run must be, and is worth knowing before anything else of rows is read."""

    def needs(self, name: str) -> str:
        """Use one of the known columns."""
        self.columns[name] = COLUMNS[name]
        return name

    def holds(self, condition: str, **parameters: Any) -> None:
        """Demand it."""
        self.conditions.append(condition)
        self.parameters |= parameters


def as_sql(filters: Filters) -> Condition:
    """The SQL of a question.

    Raises:
        BadRequestError: it asks for too much at once, or for nothing that could be found.
    """
    made = Condition()
    for kind, values in filters.tags.items():
        if kind not in TAG_KINDS:
            raise BadRequestError(
                f"{kind} is not searched by; expected one of {', '.join(TAG_KINDS)}"
            )
        _few(kind, values)
        tags = [f"{kind}:{value[:256]}" for value in values]
        names = [f"{kind}_{number}" for number in range(len(tags))]
        found = " OR ".join(f"has(s.tags, {{{name}:String}})" for name in names)
        made.columns[f"is_{kind}"] = f"max({found})"
        made.holds(f"is_{kind}", **dict(zip(names, tags, strict=True)))
    if filters.statuses:
        _few("status", filters.statuses)
        # Whether a run without an end has crashed is known of those that were found.
        statuses = ["running" if each == CRASHED else each for each in filters.statuses]
        made.holds(f"{made.needs('status')} IN {{statuses:Array(String)}}", statuses=statuses)
    for given, sign, end in ((filters.least, ">=", "min"), (filters.most, "<=", "max")):
        for name, value in given.items():
            column, units = RANGES[name]
            bound = max(-(2**62), min(2**62, round(value * units)))
            made.holds(
                f"{made.needs(column)} {sign} {{{end}_{name}:Int64}}", **{f"{end}_{name}": bound}
            )
            if name == "confidence":  # 2 stands for none
                made.holds("confidence_ppm <= 1000000")
    _add_text(made, filters.text)
    _add_attributes(made, filters.attributes)
    _add_scored(made, filters.scored)
    return made


def words_of(text: str) -> list[str]:
    """The words of a free text, each once.

    Raises:
        BadRequestError: there is none in it, or there are too many.
    """
    words = list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))
    if text.strip() and not words:
        raise BadRequestError(f"q: {text[:80]!r} has no word to search for")
    _few("q", words, MAX_WORDS)
    return words


def _add_text(made: Condition, text: str) -> None:
    phrases = [phrase for phrase in _PHRASE.findall(text) if _WORD.search(phrase)]
    words = [word.lower() for word in _WORD.findall(_PHRASE.sub(" ", text))]
    if text.strip() and not (phrases or words):
        raise BadRequestError(f"q: {text[:80]!r} has no word to search for")
    _few("q", (*words, *phrases), MAX_WORDS)
    for number, word in enumerate(dict.fromkeys(words)):
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


def _add_attributes(made: Condition, attributes: Iterable[tuple[str, str]]) -> None:
    attributes = tuple(attributes)
    _few("attribute", attributes, MAX_WORDS)
    for number, (key, value) in enumerate(attributes):
        name = f"attribute_{number}"
        made.columns[name] = f"max(s.trace_id GLOBAL IN ({_WITH_ATTRIBUTE.replace('$', name)}))"
        made.holds(name, **{f"{name}_key": key, f"{name}_value": value})


def _add_scored(made: Condition, scored: Scored) -> None:
    if scored == Scored():
        return
    _few("score", scored.names)
    _few("score_category", scored.categories)
    # Few runs are scored: of the others nothing more need be read.
    made.first = f"s.trace_id GLOBAL IN ({query('scored_runs')})"
    made.parameters |= scored.parameters()


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
      AND (SpanAttributes[{$_key:String}] = {$_value:String}
        OR ResourceAttributes[{$_key:String}] = {$_value:String})"""


def _few(name: str, values: Iterable[object], most: int = MAX_VALUES) -> None:
    count = len(tuple(values))
    if count > most:
        raise BadRequestError(f"{name}: {count} values at once; expected at most {most}")
