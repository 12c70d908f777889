"""Agent counts of each pipeline, across processes.

A pipeline's closing event counts only the agents of its own process; here the events of all processes
count. An operation counts once, however many attempts it took.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tracereel_collector.query.run.steps import RunStep
from tracereel_collector.query.run.tree import RunTree


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
        partial = self.step.status == "success" and elsewhere > 0
        return {
            "step": self.step.id,
            "pipeline_type": self.step.name,
            "status": "partial_success" if partial else self.step.status,
            "agents_executed": by_status.total(),
            "agents_succeeded": by_status["success"],
            "agents_failed": by_status["failed"],
            "agents_cancelled": by_status["cancelled"],
            "agents_retried": self.retried,
            "emitters": len({clock for _, clock in self.agents}),
        }


def pipelines_of(run: RunTree, *, most: int) -> list[dict[str, Any]]:
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
            pipeline.agents["failed" if step.is_failed else step.status, step.clock] += 1
            pipeline.retried += id(step) in again or _retries(step) > 0
    for pipeline in reversed(found):
        if pipeline.around is not None:
            pipeline.around.agents += pipeline.agents
            pipeline.around.retried += pipeline.retried
    return [pipeline.shown() for pipeline in found[:most]]


def _retries(step: RunStep) -> int:
    return (step.closing.retry_count or 0) if step.closing is not None else 0


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
        named = agent.closing.repeats if agent.closing is not None else ""
        former = executions.get((agent.trace_id, named)) if named else None
        if former is not None and former is not agent:
            over.add(id(former))
            again.add(id(agent))
    for group in tries.values():
        last = max((tried for tried, _ in group), key=lambda tried: tried.position)
        for tried, agent in group:
            number = tried.closing.attempt if tried.closing is not None else None
            if tried is not last and tried.status == "retried":
                over.add(id(agent))
            elif tried is not group[0][0] and (number or 1) > 1:
                again.add(id(agent))
    return over, again
