"""One recorded event as text: its symbol, name and description.

Input is unvalidated: any field may be missing, of another type, or hostile.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tracereel.cli.terminal import clean

Details = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StepKind:
    """Display of one kind of event."""

    symbol: str
    ascii_symbol: str
    style: str
    describe: Callable[[Details], list[str]]
    is_moment: bool = False
    """Whether the event happens inside of its span instead of being the span."""


@dataclass(frozen=True, slots=True)
class Words:
    """Text of one line, before indentation and colour."""

    name: str
    parts: tuple[str, ...]


def words_of(event: str, details: Details) -> Words:
    """Return the name and the parts of the line for one event."""
    parts = [part for part in kind_of(event).describe(details) if part]
    name = text(details, "agent_name") or text(details, "pipeline_type")
    if event == "agent.fallback.triggered":
        name = name or text(details, "primary_agent")
    if event == "otel.span_event":
        name = name or text(details, "name")
    name = name or text(details, "span_name") or text(details, "service") or "-"
    return Words(name, tuple(parts))


def kind_of(event: str) -> StepKind:
    """Return the display of an event type; unknown types are shown as custom ones."""
    if (kind := _KINDS.get(event)) is not None:
        return kind
    if "span" in event:
        return _SPAN
    return StepKind("•", ".", "cyan", lambda details: _custom(event, details), is_moment=True)


def text(details: Details, key: str) -> str:
    """Return a field as clean text; empty if missing."""
    value = details.get(key)
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return clean(json.dumps(value, ensure_ascii=False, default=str))
    return clean(value)


def number(details: Details, key: str) -> float | None:
    """Return a field as a finite number; None otherwise."""
    value = details.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def duration(milliseconds: float | None) -> str:
    """Format a duration; the unit is chosen by the rounded number."""
    if milliseconds is None:
        return ""
    sign, size = ("-" if round(milliseconds, 0) < 0 else ""), abs(milliseconds)
    if round(size, 0) < 1_000:
        return f"{sign}{size:.0f} ms"
    if round(size / 1_000, 2) < 60:
        return f"{sign}{size / 1_000:.2f} s"
    minutes, rest = divmod(round(size / 1_000, 0), 60)
    return f"{sign}{minutes:.0f} min {rest:.0f} s"


def money(dollars: float | None) -> str:
    """Format a cost with up to six decimals."""
    return "" if dollars is None else "$" + f"{dollars:.6f}".rstrip("0").rstrip(".")


def count(amount: float | None, unit: str, units: str) -> str:
    """Format a whole number with its unit, singular or plural."""
    return "" if amount is None else f"{amount:.0f} {unit if amount == 1 else units}"


def some(amount: float | None, unit: str, units: str) -> str:
    """Format a number as `count` does; empty for 0."""
    return count(amount, unit, units) if amount else ""


def tokens(amount: int | None) -> str:
    """Format a number of tokens; empty for 0."""
    return f"{amount:,} tokens" if amount else ""


def joined(parts: Iterable[str]) -> str:
    """Join the parts that are not empty for display."""
    return " · ".join(filter(None, parts))


def _confidence(details: Details, key: str = "confidence") -> str:
    value = number(details, key)
    return "" if value is None else f"confidence {value:.2f}"


def _quoted(value: str) -> str:
    return f"“{value}”" if value else ""


def _error(details: Details) -> str:
    kind, message = text(details, "error_type"), text(details, "error_message")
    return f"{kind}: {message}" if kind and message else kind or message


def _started(details: Details) -> list[str]:
    return ["started", text(details, "llm_model"), text(details, "input_summary")]


def _completed(details: Details) -> list[str]:
    return [
        " in ".join(filter(None, ["completed", duration(number(details, "execution_time_ms"))])),
        _confidence(details),
        count(number(details, "llm_tokens_used"), "token", "tokens"),
        money(number(details, "llm_cost_usd")),
        text(details, "decision_type"),
        text(details, "reasoning") or text(details, "output_summary"),
    ]


def _failed(details: Details) -> list[str]:
    taken = duration(number(details, "execution_time_before_failure_ms"))
    stage = text(details, "stage")
    return [
        " after ".join(filter(None, ["failed", taken])),
        _error(details),
        text(details, "error_category"),
        f"during {stage}" if stage else "",
    ]


def _cancelled(details: Details) -> list[str]:
    taken = duration(number(details, "execution_time_before_cancel_ms"))
    return [" after ".join(filter(None, ["cancelled", taken])), text(details, "cancel_reason")]


def _decision(details: Details) -> list[str]:
    chosen, candidates = text(details, "chosen"), details.get("candidates")
    among = f" of {len(candidates)}" if isinstance(candidates, list) and candidates else ""
    return [
        f"decided {text(details, 'decision_type')}".strip(),
        _confidence(details),
        f"chose {chosen}{among}" if chosen else "",
        text(details, "reasoning"),
    ]


def _retry(details: Details) -> list[str]:
    delay = number(details, "delay_seconds")
    return [
        f"retry {text(details, 'retry_attempt')}".strip(),
        text(details, "retry_reason"),
        f"after {duration(delay * 1_000)}" if delay is not None else "",
        text(details, "original_error"),
    ]


def _fallback(details: Details) -> list[str]:
    worked = details.get("fallback_successful")
    return [
        f"fell back to {text(details, 'fallback_agent')}".strip(),
        {True: "worked", False: "failed too"}.get(worked, "") if isinstance(worked, bool) else "",
        text(details, "trigger_reason"),
        _confidence(details, "fallback_confidence"),
        text(details, "primary_error"),
    ]


def _pipeline_started(details: Details) -> list[str]:
    return [
        "pipeline started",
        count(number(details, "sequence_length"), "agent", "agents"),
        _quoted(text(details, "user_prompt")),
    ]


def _pipeline_completed(details: Details) -> list[str]:
    taken = duration(number(details, "total_execution_time_ms"))
    return [
        " in ".join(filter(None, ["pipeline ended", taken])),
        text(details, "status"),
        text(details, "final_outcome"),
        _error(details),
        _confidence(details, "final_confidence"),
        text(details, "output_summary"),
    ]


def _call(details: Details, what: str) -> list[str]:
    taken = duration(number(details, "duration_ms"))
    status = text(details, "status")
    return [
        " in ".join(filter(None, [what, taken])),
        "" if status == "success" else status,
        _error(details),
        count(number(details, "llm_tokens_used"), "token", "tokens"),
        money(number(details, "llm_cost_usd")),
    ]


def _llm(details: Details) -> list[str]:
    return _call(details, f"called {text(details, 'llm_model') or 'a model'}")


def _tool(details: Details) -> list[str]:
    what = f"used {text(details, 'tool_name') or 'a tool'}"
    return [*_call(details, what), text(details, "result_summary") or text(details, "arguments")]


def _step(details: Details) -> list[str]:
    return _call(details, f"step {text(details, 'step_name')}".strip())


def _retrieval(details: Details) -> list[str]:
    what = text(details, "retrieval_name") or text(details, "query") or "something"
    return _call(details, f"looked up {what}")


def _message(details: Details) -> list[str]:
    kind = text(details, "message_type") or "message"
    return [kind, text(details, "role"), text(details, "content")]


def _span(details: Details) -> list[str]:
    status = text(details, "status") or text(details, "status_code")
    return ["span", duration(number(details, "duration_ms")), status]


def _span_event(details: Details) -> list[str]:
    attributes = details.get("attributes")
    known = attributes if isinstance(attributes, dict) else {}
    return ["span event", *(f"{clean(name)}={text(known, name)}" for name in known)]


def _custom(event: str, details: Details) -> list[str]:
    del details  # the fields of a custom event are only shown with --json
    return [clean(event)]


_SPAN: Final = StepKind("─", "-", "dim", _span)

_KINDS: Final[Mapping[str, StepKind]] = {
    "otel.span_event": StepKind("•", ".", "dim", _span_event, is_moment=True),
    "agent.execution.started": StepKind("▶", ">", "blue", _started),
    "agent.execution.completed": StepKind("✔", "+", "green", _completed),
    "agent.execution.failed": StepKind("✖", "x", "red", _failed),
    "agent.execution.cancelled": StepKind("■", "=", "yellow", _cancelled),
    "agent.decision.recorded": StepKind("◆", "*", "magenta", _decision, is_moment=True),
    "agent.retry.attempted": StepKind("↻", "~", "yellow", _retry, is_moment=True),
    "agent.fallback.triggered": StepKind("↪", "^", "yellow", _fallback, is_moment=True),
    "agent.pipeline.started": StepKind("┌", "[", "bold", _pipeline_started),
    "agent.pipeline.completed": StepKind("└", "]", "bold", _pipeline_completed),
    "agent.llm.called": StepKind("✦", "@", "cyan", _llm),
    "agent.tool.called": StepKind("⚙", "#", "cyan", _tool),
    "agent.step.completed": StepKind("•", ".", "cyan", _step),
    "agent.retrieval.completed": StepKind("⌕", "?", "cyan", _retrieval),
    "agent.message.normalized": StepKind("✉", "m", "dim", _message, is_moment=True),
}
