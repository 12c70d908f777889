"""Timeline of a recorded run: a header, then events indented by span depth."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tracereel.cli.steps import (
    count,
    duration,
    joined,
    kind_of,
    money,
    number,
    text,
    words_of,
)
from tracereel.cli.terminal import Terminal, clean
from tracereel.client import Replay, Step

MAX_INDENT: Final = 8
"""Maximum indentation level, so that lines keep room for text."""
_NAME_WIDTH: Final = 22
_COUNTS: Final = {
    "total_events": ("event", "events"),
    "agents_executed": ("agent", "agents"),
    "decisions": ("decision", "decisions"),
    "errors": ("error", "errors"),
    "retries": ("retry", "retries"),
    "fallbacks": ("fallback", "fallbacks"),
}
"""Counts of the summary, in display order."""


def render(replay: Replay, terminal: Terminal) -> Iterator[str]:
    """Yield the lines to print for a run."""
    yield from terminal.rows(header(replay))
    yield ""
    offsets = _offsets(replay.timeline)
    column = max(map(len, offsets), default=0)
    for step, offset, depth in zip(replay.timeline, offsets, depths(replay.timeline), strict=True):
        yield _line(step, f"{offset:>{column}}", depth, terminal)


def header(replay: Replay) -> list[tuple[str, str]]:
    """Return labels and values that describe the whole run."""
    summary, steps = replay.summary, replay.timeline
    started = _last(steps, "agent.pipeline.started")
    ended = _last(steps, "agent.pipeline.completed")
    rows = [("trace", clean(replay.trace_id))]
    pipeline = text(summary, "pipeline_type") or text(started, "pipeline_type")
    status = text(ended, "status") or text(summary, "status")
    status = status or ("not finished" if pipeline else "")
    rows.append(("pipeline", joined([pipeline, status, text(ended, "final_outcome")])))
    rows.append(("prompt", text(started, "user_prompt")))
    taken = number(ended, "total_execution_time_ms")
    rows.append(("duration", duration(number(summary, "total_time_ms") or taken)))
    counted = [count(number(summary, key), *units) for key, units in _COUNTS.items()]
    rows.append(("counts", joined(counted)))
    tokens = _usage(summary, steps, "llm_tokens_used")
    cost = _usage(summary, steps, "llm_cost_usd")
    rows.append(("model", joined([count(tokens, "token", "tokens"), money(cost)])))
    if summary.get("truncated") is True:
        rows.append(("note", f"only the first {len(steps)} events are shown"))
    return [(label, value) for label, value in rows if value]


def depths(steps: Sequence[Step]) -> list[int]:
    """Return the indentation of each step: by its span's ancestors, or by kind without spans."""
    parents: dict[str, str] = {}
    for step in steps:
        span, parent = text(step.details, "span_id"), text(step.details, "parent_span_id")
        if span:
            parents[span] = parents.get(span) or parent
    under_pipeline = any(step.event.startswith("agent.pipeline.") for step in steps)
    levels: dict[str, int] = {}
    result = []
    for step in steps:
        kind, span = kind_of(step.event), text(step.details, "span_id")
        if span:
            depth = _level(span, parents, levels)
        else:
            depth = int(under_pipeline and not step.event.startswith("agent.pipeline."))
        result.append(min(depth + int(kind.is_moment), MAX_INDENT))
    return result


def _level(span: str, parents: Mapping[str, str], levels: dict[str, int]) -> int:
    """Return the number of recorded ancestors of a span; safe against cycles in bad data."""
    chain: list[str] = []
    seen: set[str] = set()
    current = span
    while current in parents and current not in levels and current not in seen:
        seen.add(current)
        chain.append(current)
        current = parents[current]
    depth = levels.get(current, -1)
    for link in reversed(chain):
        depth += 1
        levels[link] = depth
    return levels[span]


def _line(step: Step, offset: str, depth: int, terminal: Terminal) -> str:
    kind, words = kind_of(step.event), words_of(step.event, step.details)
    symbol = kind.symbol if terminal.unicode else kind.ascii_symbol
    indent = " " * min(2 * depth, terminal.width // 4)
    room = terminal.width - len(offset) - len(indent) - 5
    width = min(max(8, _NAME_WIDTH - len(indent)), max(1, room // 2))
    most = max(width, room // 3)
    name, shown = terminal.columns(words.name, joined(words.parts), room, least=width, most=most)
    return (
        f"{terminal.paint(offset, 'dim')}  {indent}{terminal.paint(symbol, kind.style)} "
        f"{terminal.paint(name, 'bold')} {terminal.paint_failure(shown, kind.style)}"
    ).rstrip()


def _offsets(steps: Sequence[Step]) -> list[str]:
    moments = [_moment(step.time) for step in steps]
    start = next((moment for moment in moments if moment is not None), None)
    return [
        "?" if moment is None or start is None else f"{(moment - start).total_seconds():+.3f} s"
        for moment in moments
    ]


def local_time(value: str) -> str:
    """Format a time as local time of day."""
    moment = _moment(value)
    try:
        local = moment.astimezone() if moment is not None else None
    except (OverflowError, OSError, ValueError):
        local = None
    return f"{local:%H:%M:%S}.{local.microsecond // 1000:03d}" if local else "?           "


def _moment(value: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _last(steps: Sequence[Step], event: str) -> Mapping[str, Any]:
    return next((step.details for step in reversed(steps) if step.event == event), {})


def _usage(summary: Mapping[str, Any], steps: Sequence[Step], key: str) -> float | None:
    """Return the summary's value, else the sum of model calls, else the sum of agents."""
    if (total := number(summary, key)) is not None:
        return total
    for event in ("agent.llm.called", "agent.execution.completed"):
        values = [number(step.details, key) for step in steps if step.event == event]
        if known := [value for value in values if value is not None]:
            return sum(known)
    return None
