"""Summary of a run: the figures of the contract, agent counts of its pipelines, and others.

A pipeline's closing event counts only the agents of its own process; here the events of all processes
count. An operation counts once, however many attempts it took.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracereel.semconv import PIPELINE_COMPLETED, SPAN_EVENTS, TAPE_RECORDED
from tracereel_collector.query.costs import shown_unpriced
from tracereel_collector.query.run.analysis import Analysis
from tracereel_collector.query.run.events import EventRow
from tracereel_collector.query.run.ledger import accounts_of, unnumbered, verdict_of
from tracereel_collector.query.run.outcomes import Outcomes, was_replaced
from tracereel_collector.query.run.serialize import milliseconds, shown_failure, shown_path
from tracereel_collector.query.run.steps import DECISION, FALLBACK, MILLI, RETRY, RunStep
from tracereel_collector.query.run.tree import RunTree, is_open

_REPLACED = "replaced"
"""Status of an agent that failed and whose fallback delivered the result."""
MAX_SHOWN = 50
"""Maximum path segments, wasted steps and pipelines listed in a summary."""


def counts(analysis: Analysis) -> dict[str, Any]:
    """Return the figures of the contract and simple counts.

    Errors, time and status are those of the run itself, as in the list; the others include child runs.
    """
    run, identity = analysis.run, analysis.identity
    rows = run.events
    marks = Counter(each.row.name for step in run.steps for each in step.span_events)
    types = Counter(row.event_type for row in rows)
    agents = list(dict.fromkeys(row.agent_name for row in rows if row.agent_name))
    closing = (
        row
        for row in reversed(rows)
        if row.event_type == PIPELINE_COMPLETED
        and (row.trace_id == run.trace_id or run.trace_id not in run.trace_ids)
    )
    last = next(closing, None) if types[PIPELINE_COMPLETED] else None
    # With wrong clocks, only the tree gives the duration.
    duration_ms = (run.ended - run.began) / MILLI if run.clocks else identity.duration_ms
    return {
        "total_events": len(rows) - types[TAPE_RECORDED] + _spans_alone(run) + marks.total(),
        "agents_executed": len(agents),
        "total_time_ms": round(duration_ms),
        "errors": identity.errors,
        "retries": _named(types, "retry") + marks[_mark(RETRY)],
        "fallbacks": _named(types, "fallback") + marks[_mark(FALLBACK)],
        "decisions": _named(types, "decision") + marks[_mark(DECISION)],
        "agents": agents,
        "pipeline_type": next((row.pipeline_type for row in rows if row.pipeline_type), None),
        "status": None if last is None else last.status,
        "name": identity.name or None,
        "duration_ms": round(duration_ms, 3),
    }


def _mark(event_type: str) -> str:
    """Return the name of the span event that means the same as an event type."""
    return SPAN_EVENTS[event_type][0]


def _spans_alone(run: RunTree) -> int:
    """Return the number of spans that no event describes, which the timeline shows."""
    return sum(step.source == "otlp" for step in run.steps) if run.spans else 0


def _named(types: Mapping[str, int], word: str) -> int:
    """Return the number of events whose type contains a word."""
    # Custom event types may contain any word and do not count.
    return sum(many for name, many in types.items() if name.startswith("agent.") and word in name)


def summary_of(analysis: Analysis) -> dict[str, Any]:
    """Return the summary of a run, bounded in size."""
    run = analysis.run
    origin = run.began
    waste = analysis.waste
    return {
        **counts(analysis),
        "llm_tokens_used": analysis.usage.tokens,
        "llm_cost_usd": analysis.usage.cost_usd,
        **shown_unpriced(_unpriced(analysis)),
        "state": analysis.state,
        "pipelines": _pipelines(run, analysis.outcomes),
        "total_spans": len(run.spans),
        "span_events": sum(len(step.span_events) for step in run.steps),
        "total_steps": len(run.steps),
        "running": sum(step.status == "running" for step in run.steps),
        "crashed": sum(step.status == "crashed" for step in run.steps),
        "runs": list(run.trace_ids),
        "critical_path": shown_path(analysis.path, origin=origin, most=MAX_SHOWN),
        "wasted": {
            "time_ms": round(waste.time_ms, 3),
            "waiting_ms": round(waste.waiting_ms, 3),
            "tokens": waste.usage.tokens,
            "cost_usd": waste.usage.cost_usd,
            "steps": [step.id for step in waste.steps[:MAX_SHOWN]],
            "step_count": len(waste.steps),
        },
        "first_error": shown_failure(analysis.first_error, origin=origin),
        "fatal_error": shown_failure(analysis.last_error, origin=origin),
        "completeness": _completeness(run.events, truncated=run.truncated),
        "clock_shifts_ms": {clock: milliseconds(shift) for clock, shift in run.clocks.items()},
        "open_steps": [step.id for step in run.steps if is_open(step)][:MAX_SHOWN],
        "truncated": run.truncated,
    }


def _unpriced(analysis: Analysis) -> Counter[str]:
    """Return the tokens of calls without a cost, by model."""
    found: Counter[str] = Counter()
    for step in analysis.run.steps:
        ending = step.closing or step.span
        if step.kind != "llm" or ending is None or ending.cost_usd is not None:
            continue
        if step.id in analysis.prices or (step.parent is not None and step.parent.kind == "llm"):
            continue
        model = step.closing.llm_model if step.closing else ""
        found[model or (step.span.model if step.span else "")] += ending.tokens or 0
    return found


def _completeness(events: Sequence[EventRow], *, truncated: bool) -> dict[str, Any]:
    """Return the completeness of a run, as far as its events show."""
    accounts = accounts_of(events)
    loose = unnumbered(events)
    return {
        # Truncated events would look like gaps.
        "verdict": "unknown" if truncated else verdict_of(accounts, unnumbered=loose),
        "missing": 0 if truncated else sum(account.missing for account in accounts),
        "emitters": len({account.emitter_id for account in accounts}),
        "unnumbered": loose,
    }


class _Pipeline:
    """Pipeline and the counts of its agents."""

    def __init__(self, step: RunStep, around: "_Pipeline | None") -> None:
        self.step = step
        self.around = around
        self.agents: Counter[tuple[str, str]] = Counter()
        """Number of agents by final status and clock."""
        self.retried = 0

    def shown(self) -> dict[str, Any]:
        by_status: Counter[str] = Counter()
        for (status, _), number in self.agents.items():
            by_status[status] += number
        elsewhere = by_status["failed"] - self.agents["failed", self.step.clock]
        # The pipeline's own status already covers failures in its process.
        partial = self.step.status == "success" and (elsewhere > 0 or by_status[_REPLACED] > 0)
        return {
            "step": self.step.id,
            "pipeline_type": self.step.name,
            "status": "partial_success" if partial else self.step.status,
            "agents_executed": by_status.total(),
            "agents_succeeded": by_status["success"],
            "agents_failed": by_status["failed"],
            "agents_cancelled": by_status["cancelled"],
            "agents_replaced": by_status[_REPLACED],
            "agents_retried": self.retried,
            "emitters": len({clock for _, clock in self.agents}),
        }


def _pipelines(run: RunTree, outcomes: Outcomes) -> list[dict[str, Any]]:
    """Return the pipelines of a run, outer ones first, with agent counts of all processes."""
    inside: dict[int, _Pipeline] = {}
    found: list[_Pipeline] = []
    for step in run.steps:
        around = inside.get(id(step.parent))
        if step.kind == "pipeline":
            around = _Pipeline(step, around)
            found.append(around)
        if around is not None:
            inside[id(step)] = around
    if not found:
        return []
    over, again = _repeated(run.steps)
    for step in run.steps:
        pipeline = inside.get(id(step)) if step.kind == "agent" else None
        if pipeline is not None and id(step) not in over:
            status = "failed" if step.is_failed else step.status
            if was_replaced(step, outcomes):
                status = _REPLACED
            pipeline.agents[status, step.clock] += 1
            pipeline.retried += id(step) in again or bool(step.ending.retry_count)
    for pipeline in reversed(found):
        if pipeline.around is not None:
            pipeline.around.agents += pipeline.agents
            pipeline.around.retried += pipeline.retried
    return [pipeline.shown() for pipeline in found[:MAX_SHOWN]]


def _repeated(steps: Iterable[RunStep]) -> tuple[set[int], set[int]]:
    """Return the agents that were retried, and those that are a retry, by `id(step)`.

    Within a process, an execution names the one it repeats. An execution in another process cannot: there,
    the same agent in a later attempt of the same operation is a retry.
    """
    executions: dict[tuple[str, str], RunStep] = {}
    attempts: dict[int, RunStep] = {}
    tries: dict[tuple[int, str], list[tuple[RunStep, RunStep]]] = {}
    agents = []
    for step in steps:
        tried = step if step.kind == "attempt" else attempts.get(id(step.parent))
        if tried is not None:
            attempts[id(step)] = tried
        if step.kind == "agent":
            agents.append(step)
            executions.setdefault((step.trace_id, step.execution_id), step)
            if tried is not None and tried.parent is not None:
                tries.setdefault((id(tried.parent), step.name), []).append((tried, step))
    over: set[int] = set()
    again: set[int] = set()
    for agent in agents:
        named = agent.ending.repeats
        former = executions.get((agent.trace_id, named)) if named else None
        if former is not None and former is not agent:
            over.add(id(former))
            again.add(id(agent))
    for group in tries.values():
        last = max((tried for tried, _ in group), key=lambda tried: tried.position)
        for tried, agent in group:
            if tried is not last and tried.status == "retried":
                over.add(id(agent))
            elif tried is not group[0][0] and (tried.ending.attempt or 1) > 1:
                again.add(id(agent))
    return over, again
