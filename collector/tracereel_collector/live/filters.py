"""Filters of the live tail; several values of one field are alternatives (OR)."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import msgspec

from tracereel._redact.event_redaction import owner_forms

TEXT_FIELDS: Final = (
    *("user_prompt", "input_summary", "output_summary", "reasoning", "final_outcome"),
    *("error_message", "original_error", "primary_error", "trigger_reason", "content"),
    *("query", "arguments", "result", "result_summary", "input_messages", "output_messages"),
    *("input_data", "output_data", "partial_output", "fallback_output_summary"),
    *("span_name", "status_message"),
)
"""Fields searched by free-text queries: prompts, outputs, reasoning and errors."""
MAX_DEPTH: Final = 20
_WORD: Final = re.compile("[0-9A-Za-z\u0080-\U0010ffff]+")
"""Same word definition as in the search."""
_PHRASE: Final = re.compile(r'"([^"]*)"')
_ENDINGS: Final = ((".completed", "success"), (".failed", "failed"), (".cancelled", "cancelled"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TailFilter:
    """Conditions of a live subscription; empty fields match everything."""

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Accepted values by filter (`VALUES`); a type that ends in `.` is a prefix."""
    least: Mapping[str, float] = field(default_factory=dict)
    """Minimum by measure (`MEASURES`); records without the measure do not match."""
    most: Mapping[str, float] = field(default_factory=dict)
    attribute: tuple[tuple[str, str], ...] = ()
    """Fields by name and value; all must match."""
    text: str = ""
    """Words and phrases in double quotes; all must occur."""

    def test(self) -> Callable[[Mapping[str, Any]], bool]:
        """Return the filter as a predicate with only the given conditions."""
        conditions = list(self._conditions())
        return lambda fields: all(condition(fields) for condition in conditions)

    def _conditions(self) -> Iterator[Callable[[Mapping[str, Any]], bool]]:
        for name, columns in _COLUMNS.items():
            if accepted := frozenset(self.values.get(name, ())):
                if name in ("user", "session"):
                    accepted = frozenset(form for each in accepted for form in owner_forms(each))
                yield _is_any(columns, accepted)
        if types := self.values.get("type"):
            prefixes = tuple(name for name in types if name.endswith("."))
            yield lambda fields: _is_type(str(fields.get("event_type")), types, prefixes)
        if statuses := self.values.get("status"):
            yield lambda fields: status_of(fields) in statuses
        for measure, fields_of in MEASURES.items():
            least, most = self.least.get(measure, -inf), self.most.get(measure, inf)
            if (least, most) != (-inf, inf):
                yield _is_within(fields_of, least, most)
        if self.attribute:
            yield lambda fields: all(
                _has_value(fields.get(key), text) for key, text in self.attribute
            )
        query = _Query.parse(self.text)
        if query.words or query.phrases:
            yield query.matches


_COLUMNS: Final = {
    "agent": ("agent_name", "primary_agent", "fallback_agent"),
    "pipeline": ("pipeline_type",),
    "error": ("error_type",),
    "category": ("error_category",),
    "code": ("error_code",),
    "session": ("session_id",),
    "user": ("user_id",),
    "trace": ("trace_id", "otel_trace_id"),
    "model": ("llm_model",),
    "provider": ("llm_provider",),
    "service": ("service",),
}
VALUES: Final = ("type", "status", *_COLUMNS)
"""Filters that accept values: the event type, the status, and fields."""


MEASURES: Final = {
    "duration_ms": (
        *("execution_time_ms", "execution_time_before_failure_ms"),
        *("execution_time_before_cancel_ms", "total_execution_time_ms"),
        *("duration_ms", "decision_duration_ms"),
    ),
    "cost_usd": ("llm_cost_usd",),
    "tokens": ("llm_tokens_used",),
    "confidence": ("confidence", "final_confidence", "fallback_confidence"),
}
"""Measures that accept a minimum and maximum; the first field present is used."""


def status_of(fields: Mapping[str, Any]) -> str:
    """Return the status as the store derives it: explicit, or implied by the event type."""
    status = fields.get("status")
    if isinstance(status, str) and status:
        return status
    event_type = str(fields.get("event_type"))
    return next((status for ending, status in _ENDINGS if event_type.endswith(ending)), "")


def _is_any(
    columns: tuple[str, ...], wanted: frozenset[str]
) -> Callable[[Mapping[str, Any]], bool]:
    return lambda fields: any(
        isinstance(value := fields.get(column), str) and value in wanted for column in columns
    )


def _is_within(
    columns: tuple[str, ...], least: float, most: float
) -> Callable[[Mapping[str, Any]], bool]:
    def test(fields: Mapping[str, Any]) -> bool:
        values = (fields.get(column) for column in columns)
        found = next((each for each in values if each is not None), None)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            return False
        return least <= found <= most

    return test


def _is_type(event_type: str, types: tuple[str, ...], prefixes: tuple[str, ...]) -> bool:
    return event_type in types or event_type.startswith(prefixes)


def _has_value(value: object, text: str) -> bool:
    if isinstance(value, str):
        return value == text
    return value is not None and msgspec.json.encode(value) == text.encode()


@dataclass(frozen=True, slots=True)
class _Query:
    """Words that must match whole words of a text, and phrases that may match anywhere.

    Plain string search is used because case-insensitive regular expressions are slow on long texts.
    """

    words: frozenset[str]
    phrases: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "_Query":
        phrases = [phrase.lower() for phrase in _PHRASE.findall(text) if phrase.strip()]
        words = _WORD.findall(_PHRASE.sub(" ", text).lower())
        return cls(frozenset(words), tuple(phrases))

    def matches(self, fields: Mapping[str, Any]) -> bool:
        texts = [
            text.lower()
            for name in TEXT_FIELDS
            if (value := fields.get(name)) is not None
            for text in _texts(value, MAX_DEPTH)
        ]
        if not all(any(phrase in text for text in texts) for phrase in self.phrases):
            return False
        missing = set(self.words)
        for text in texts:
            if not missing:
                break
            missing.difference_update(_WORD.findall(text))
        return not missing


def _texts(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, dict):
        for each in value.values():
            yield from _texts(each, depth - 1)
    elif depth and isinstance(value, list):
        for each in value:
            yield from _texts(each, depth - 1)
