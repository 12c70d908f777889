"""Redaction settings: user-defined rules and field actions beside the built-in rules.

On by default. `configure(redaction=Redaction(...))` adds rules and field actions;
`configure(redaction=False)` or `TRACEREEL_REDACTION=off` turns redaction off.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from tracereel._redact.rule_windows import WindowedPattern
from tracereel._redact.secret_patterns import MARK, PATTERNS
from tracereel.errors import ConfigurationError

FieldAction = Literal["drop", "hash", "keep"]

BUILT_IN: Final = tuple(dict.fromkeys(pattern.name for pattern in PATTERNS))
"""Names of the built-in rules, as used in `[redacted:<name>]`."""

counts: Final[Counter[str]] = Counter()
"""Redactions in this process, by rule; `field` counts values under a sensitive key."""

_listeners: Final[list[Callable[[str], None]]] = []

IDENTITY: Final = frozenset(
    {"event_id", "event_type", "event_version", "timestamp", "trace_id", "otel_trace_id", "span_id"}
    | {"parent_span_id", "parent_trace_id", "execution_id", "origin_execution_id", "decision_id"}
    | {"next_retry_at", "emitter_id", "hlc"}
)
"""Fields that identify an event; never redacted."""
REQUIRED: Final = frozenset(
    {
        "tape_id",
        "tape_version",
        "part",
        "records",
        "input_size_bytes",
        "output_size_bytes",
        "execution_time_ms",
        "execution_time_seconds",
    }
    | {"was_retried", "retry_count", "fallback_used", "max_retries_reached", "fallback_attempted"}
    | {"execution_time_before_failure_ms", "execution_time_before_cancel_ms", "was_cached"}
    | {"retry_attempt", "delay_seconds", "fallback_successful", "total_execution_time_ms"}
    | {"agents_executed", "agents_succeeded", "agents_failed", "agents_retried", "duration_ms"}
    | {"degraded", "original_index", "status", "operation"}
)
"""Numbers, flags and states that the contract requires; they cannot be dropped or hashed."""


@dataclass(frozen=True, slots=True)
class Rule:
    """User-defined pattern to hide: every match becomes `[redacted:<name>]`.

    A group named `hide` restricts the redaction to that group. A text of more than 16,384
    characters is searched in windows of that size, which bounds the time of a slow pattern. A match
    of up to 1,024 characters is found at any position.
    """

    name: str
    pattern: "str | re.Pattern[str]"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", self.name):
            raise ConfigurationError(
                f"rule name is {self.name!r}; expected 1 to 64 letters, digits and _ . -"
            )
        try:
            compiled = re.compile(self.pattern)
        except re.error as error:
            raise ConfigurationError(
                f"pattern of rule {self.name!r} is {self.pattern!r}: {error}"
            ) from None
        if compiled.match("") is not None:
            raise ConfigurationError(f"pattern of rule {self.name!r} matches the empty text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """Redaction settings for events, log lines and spans.

    Args:
        rules: user-defined rules, applied to every text before the built-in ones.
        fields: event field → `drop` it, `hash` it (equal values stay equal), or `keep` it
            unredacted.
        built_in: whether to search for secrets and personal data.
    """

    rules: Sequence[Rule] = ()
    fields: Mapping[str, FieldAction] = field(default_factory=dict)
    built_in: bool = True

    def __post_init__(self) -> None:
        allowed = get_args(FieldAction)
        for name, action in self.fields.items():
            if action not in allowed:
                raise ConfigurationError(
                    f"redaction of field {name!r} is {action!r}; expected one of {', '.join(allowed)}"
                )
            if action != "keep" and (name in IDENTITY or name in REQUIRED):
                raise ConfigurationError(
                    f"redaction of field {name!r} is {action!r}; every such event needs it: only"
                    " 'keep' is possible"
                )

    def patterns(self) -> tuple[WindowedPattern, ...]:
        """Return the compiled user-defined rules."""
        return tuple(WindowedPattern(rule.name, re.compile(rule.pattern)) for rule in self.rules)


OFF: Final = Redaction(built_in=False)


def redact(text: str) -> str:
    """Return a text without the secrets and personal data that the built-in rules find."""
    for pattern in PATTERNS:
        text = pattern.apply(text, count)
    return text


def count(name: str) -> None:
    """Count a redaction and notify the listener."""
    counts[name] += 1
    for listener in _listeners:
        listener(name)


def listen(listener: Callable[[str], None]) -> None:
    """Register the callback for redactions (the metrics); it replaces an earlier one."""
    _listeners[:] = [listener]


def parse(value: object) -> Redaction:
    """Parse the setting: a `Redaction`, or on or off.

    Raises:
        ValueError: it is neither; the message lists the accepted values.
    """
    if isinstance(value, Redaction):
        return value
    word = str(value).strip().lower()
    if word in ("1", "true", "yes", "on"):
        return Redaction()
    if word in ("0", "false", "no", "off"):
        return OFF
    raise ValueError("on, off or a tracereel.redaction.Redaction")


__all__ = [
    "BUILT_IN",
    "MARK",
    "OFF",
    "FieldAction",
    "Redaction",
    "Rule",
    "counts",
    "parse",
    "redact",
]
