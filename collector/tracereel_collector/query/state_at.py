"""State of a run at a point in time: steps, events and usage so far."""

from dataclasses import dataclass
from typing import Any

from tracereel.semconv import TAPE_RECORDED
from tracereel_collector.errors import BadRequestError
from tracereel_collector.query.run.analysis import NOTHING, Analysis, StepUsage, add, total_usage
from tracereel_collector.query.run.calls import repeated_calls
from tracereel_collector.query.run.rows import RunRows
from tracereel_collector.query.run.serialize import milliseconds, moment, shown_decision
from tracereel_collector.query.run.steps import DECISION, MILLI, RunStep
from tracereel_collector.query.run.tree import build
from tracereel_collector.query.window import parse_time

MAX_STEPS = 1_000
"""Maximum steps listed; `finished` and `under_way` count all."""
MAX_OFFSET_MS = 1e12
MAX_LAST = 20
"""Maximum number of last events and of decisions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentOfRun:
    """Absolute time in unix nanoseconds, or offset in milliseconds from the start of a run."""

    unix_nano: int | None = None
    offset_ms: float = 0.0

    def after(self, began: int) -> int:
        """Return the absolute time for a run that began at `began`."""
        return began + round(self.offset_ms * MILLI) if self.unix_nano is None else self.unix_nano


def parse_moment(text: str) -> MomentOfRun:
    """Parse a time, or milliseconds after the start of a run.

    Raises:
        BadRequestError: it is neither.
    """
    try:
        offset = float(text)
        if abs(offset) < MAX_OFFSET_MS:
            return MomentOfRun(offset_ms=offset)
    except ValueError:
        pass
    try:
        return MomentOfRun(unix_nano=parse_time(text))
    except (ValueError, OverflowError) as error:
        raise BadRequestError(
            f"at: {text[:80]!r} is not a moment; expected a time such as 2026-01-23T10:00:01.5Z,"
            " or milliseconds after the beginning of the run"
        ) from error


def state_at(analysis: Analysis, at: MomentOfRun) -> dict[str, Any]:
    """Return the state of a run at a point in time, on the run's clock."""
    run = analysis.run
    origin = run.began
    then = at.after(origin)
    begun = [step for step in run.steps if step.began <= then]
    under_way = [step for step in begun if _is_under_way(step, then)]
    events = [
        (row.unix_nano + step.shift, row)
        for step in begun
        for row in step.events
        if row.unix_nano + step.shift <= then
    ]
    events += [(row.unix_nano, row) for row in run.loose if row.unix_nano <= then]
    # Tape parts are not events of the run; the timeline omits them too.
    events = [pair for pair in events if pair[1].event_type != TAPE_RECORDED]
    events.sort(key=lambda pair: (pair[1].hlc, pair[1].sequence_number))
    decided = [row for _, row in events if row.event_type == DECISION]
    usage = _usage_by(analysis, begun, [row for _, row in events], then)
    failed = [step for step in begun if step.is_failed and not _is_under_way(step, then)]
    return {
        "trace_id": run.trace_id,
        "at": moment(then),
        "offset_ms": milliseconds(then - origin),
        "state": _state(analysis, then, under_way, begun),
        "under_way": len(under_way),
        "finished": len(begun) - len(under_way),
        "to_come": len(run.steps) - len(begun),
        "events_so_far": len(events),
        "errors_so_far": len(failed),
        "tokens": usage.tokens,
        "cost_usd": usage.cost_usd,
        "steps": [_step_at(analysis, step, then) for step in begun[:MAX_STEPS]],
        "decisions": [shown_decision(row) for row in decided[-MAX_LAST:]],
        "last_events": [
            {
                "time": row.time,
                "event": row.event_type,
                "agent": row.agent_name or None,
                "event_id": row.event_id,
                "offset_ms": milliseconds(when - origin),
            }
            for when, row in events[-MAX_LAST:]
        ],
        "truncated": run.truncated or len(begun) > MAX_STEPS,
    }


def _is_under_way(step: RunStep, then: int) -> bool:
    return step.ended is None or step.ended > then


def _state(analysis: Analysis, then: int, under_way: list[RunStep], begun: list[RunStep]) -> str:
    if not begun:
        return "not_started"
    if then >= analysis.run.ended:
        return analysis.state
    return "running" if under_way else "between_steps"


def _step_at(analysis: Analysis, step: RunStep, then: int) -> dict[str, Any]:
    run = analysis.run
    shown = {
        "id": step.id,
        "parent_id": None if step.parent is None else step.parent.id,
        "kind": step.kind,
        "name": step.name,
        "status": step.status,
        "offset_ms": milliseconds(step.began - run.began),
    }
    if not _is_under_way(step, then):
        return {**shown, "duration_ms": milliseconds(step.duration_ns)}
    if step.ended is not None or then < run.ended:
        shown["status"] = "running"
    return {**shown, "elapsed_ms": milliseconds(then - step.began)}


def _usage_by(analysis: Analysis, begun: list[RunStep], events: list[Any], then: int) -> StepUsage:
    """Return the usage up to `then`, recalculated from the events and spans until then."""
    ended = [step.span for step in begun if step.span is not None and not _is_under_way(step, then)]
    if not events and not ended:
        return NOTHING
    run = build(
        RunRows(
            trace_id=analysis.run.trace_id,
            trace_ids=analysis.run.trace_ids,
            events=events,
            spans=ended,
            prices=analysis.prices,
        )
    )
    totals = total_usage(run.steps, analysis.prices, repeated_calls(run.steps))
    return add(totals[id(step)] for step in run.roots)
