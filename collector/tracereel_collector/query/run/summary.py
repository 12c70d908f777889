"""Summary of a run: the figures of the contract, and further ones."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracereel.semconv import TAPE_RECORDED
from tracereel_collector.query.run.analysis import Analysis
from tracereel_collector.query.run.ledger import accounts_of, unnumbered, verdict_of
from tracereel_collector.query.run.pipelines import pipelines_of
from tracereel_collector.query.run.rows import EventRow
from tracereel_collector.query.run.serialize import milliseconds, shown_failure, shown_path
from tracereel_collector.query.run.steps import MILLI
from tracereel_collector.query.run.tree import is_open

MAX_SHOWN = 50
"""Maximum path segments, wasted steps and pipelines listed in a summary."""


def counts(rows: Sequence[EventRow]) -> dict[str, Any]:
    """Return the figures of the contract and simple counts, from events alone."""
    types = Counter(row.event_type for row in rows)
    agents = list(dict.fromkeys(row.agent_name for row in rows if row.agent_name))
    moments = [row.unix_nano for row in rows]
    closing = (row for row in reversed(rows) if row.event_type == "agent.pipeline.completed")
    last = next(closing, None) if types["agent.pipeline.completed"] else None
    # Use model calls; executions only if there are no calls.
    told = "agent.llm.called" if types["agent.llm.called"] else "agent.execution.completed"
    calls = [row for row in rows if row.event_type == told]
    return {
        "total_events": len(rows) - types[TAPE_RECORDED],
        "agents_executed": len(agents),
        "total_time_ms": (max(moments) - min(moments)) // MILLI if moments else 0,
        "errors": _named(types, "failed"),
        "retries": _named(types, "retry"),
        "fallbacks": _named(types, "fallback"),
        "decisions": _named(types, "decision"),
        "agents": agents,
        "pipeline_type": next((row.pipeline_type for row in rows if row.pipeline_type), None),
        "status": None if last is None else last.status,
        "llm_tokens_used": _sum_known(row.tokens for row in calls),
        "llm_cost_usd": _sum_known(row.cost_usd for row in calls),
    }


def _named(types: Mapping[str, int], word: str) -> int:
    """Return the number of events whose type contains a word."""
    # Custom event types may contain any word and do not count.
    return sum(many for name, many in types.items() if name.startswith("agent.") and word in name)


def summary_of(analysis: Analysis) -> dict[str, Any]:
    """Return the summary of a run, bounded in size."""
    run = analysis.run
    origin = run.began
    base = counts(run.events)
    if run.clocks or not run.events:
        # With wrong clocks, event timestamps do not give the duration.
        base["total_time_ms"] = (run.ended - origin) // MILLI
    waste = analysis.waste
    return {
        **base,
        "llm_tokens_used": analysis.usage.tokens,
        "llm_cost_usd": analysis.usage.cost_usd,
        "state": analysis.state,
        "pipelines": pipelines_of(run, most=MAX_SHOWN),
        "total_spans": len(run.spans),
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
        "completeness": completeness_in_short(run.events, truncated=run.truncated),
        "clock_shifts_ms": {clock: milliseconds(shift) for clock, shift in run.clocks.items()},
        "open_steps": [step.id for step in run.steps if is_open(step)][:MAX_SHOWN],
        "truncated": run.truncated,
    }


def completeness_in_short(events: Sequence[EventRow], *, truncated: bool) -> dict[str, Any]:
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


def _sum_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
