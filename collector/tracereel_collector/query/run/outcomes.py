"""Fields that were not known yet when an event was sent: outcomes, and agents that ran."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from tracereel_collector.query.run.chains import Chain
from tracereel_collector.query.run.events import EventRow
from tracereel_collector.query.run.steps import FALLBACK, RETRY, RunStep
from tracereel_collector.query.run.tree import RunTree

FAILED: Final = "agent.execution.failed"
PIPELINE_STARTED: Final = "agent.pipeline.started"
MAX_AGENTS: Final = 256
"""Maximum agents of a sequence, as in the SDK."""
MAX_AROUND: Final = 8
"""Maximum operations around a failure, or pipelines around an agent, that are looked at."""
_LOST: Final = frozenset({"failed", "retried", "cancelled", "crashed"})

Outcomes = Mapping[int, dict[str, Any]]
"""Fields that later events decide, by `id` of the event's row."""


def outcomes_of(run: RunTree, chains: Sequence[Chain]) -> Outcomes:
    """Return fields of events that were sent without them.

    They are `retry_successful`, `fallback_successful`, `agent_sequence` and `sequence_length`.
    """
    return {**_retries(chains), **_fallbacks(run), **_sequences(run)}


def is_undecided(row: EventRow) -> bool:
    """Return whether later events may decide about an event."""
    if row.event_type == FAILED:
        return row.fallback_successful is None and row.fallback_attempted is not False
    return row.event_type == RETRY and row.retry_successful is None


def has_no_plan(row: EventRow) -> bool:
    """Return whether a pipeline began without a declared sequence of agents."""
    return row.event_type == PIPELINE_STARTED and bytes(row.agent_sequence) in (b"", b"null")


def sequence_of(closing: EventRow) -> dict[str, Any]:
    """Return the agents that ran, if the closing event of a pipeline has them."""
    try:
        agents = msgspec.json.decode(closing.agent_sequence, type=list[str])
    except msgspec.DecodeError:
        return {}
    return {"agent_sequence": agents, "sequence_length": len(agents)}


def was_replaced(step: RunStep, outcomes: Outcomes) -> bool:
    """Return whether a step failed and a fallback delivered its result."""
    row = step.closing
    if row is None or not step.is_failed:
        return False
    if row.fallback_successful:
        # A fallback inside of the step that came before its failure did not replace it.
        return not any(
            each.event_type == FALLBACK and each.hlc < row.hlc and each.fallback_successful
            for each in step.events
        )
    return bool(outcomes.get(id(row), {}).get("fallback_successful"))


def _sequences(run: RunTree) -> dict[int, dict[str, Any]]:
    """Return the agents of each ended pipeline in the order in which they began."""
    around: dict[int, tuple[RunStep, ...]] = {}
    agents: dict[int, list[RunStep]] = {}
    found: dict[int, dict[str, Any]] = {}
    for step in run.steps:
        near = around.get(id(step.parent), ())
        if step.opening is not None and step.closing is not None and has_no_plan(step.opening):
            found[id(step.opening)] = sequence_of(step.closing)
            if not found[id(step.opening)]:
                agents[id(step.opening)] = []
                near = (step, *near)[:MAX_AROUND]
        around[id(step)] = near
        if step.kind == "agent":
            for pipeline in near:
                agents[id(pipeline.opening)].append(step)
    for opening, ran in agents.items():
        ran.sort(key=lambda step: step.position)
        names = list(dict.fromkeys(step.name for step in ran))[:MAX_AGENTS]
        found[opening] = {"agent_sequence": names, "sequence_length": len(names)}
    return found


def _retries(chains: Sequence[Chain]) -> dict[int, dict[str, bool]]:
    """Return the outcome of each retry: the status of the attempt that followed."""
    found: dict[int, dict[str, bool]] = {}
    for chain in chains:
        attempts = [link for link in chain.links if link.what == "attempt"]
        for link, following in pairwise(attempts):
            row = link.retry
            if row is None or row.retry_successful is not None:
                continue
            is_known = following.step is not None or following.retry is not None
            if not is_known and chain.operation.ending.hlc <= row.hlc:
                continue  # it had ended before: its status is not that of the retry
            if following.status in ("success", "partial_success"):
                found[id(row)] = {"retry_successful": True}
            elif following.status in _LOST:
                found[id(row)] = {"retry_successful": False}
    return found


def _fallbacks(run: RunTree) -> dict[int, dict[str, bool]]:
    """Return the outcome of the fallbacks of each failed execution."""
    tried: dict[tuple[int, str, str], _Tried] = {}
    failures: dict[tuple[str, str], list[int]] = {}
    for step in run.steps:
        for row in step.events:
            if row.event_type == FALLBACK:
                key = (id(step), row.trace_id, row.primary_agent)
                tried.setdefault(key, _Tried()).add(row)
    if not tried:
        return {}
    for row in run.events:
        if row.event_type == FAILED:
            failures.setdefault((row.trace_id, row.agent_name), []).append(row.hlc)
    operations = {step for step, _, _ in tried}
    around: dict[int, tuple[RunStep, ...]] = {}
    found: dict[int, dict[str, bool]] = {}
    for step in run.steps:
        near = around.get(id(step.parent), ())
        near = around[id(step)] = ((step, *near) if id(step) in operations else near)[:MAX_AROUND]
        ending = step.ending
        if ending.event_type != FAILED or ending.fallback_attempted is False:
            continue
        if ending.fallback_successful is not None:
            continue
        later = failures[ending.trace_id, ending.agent_name]
        following = bisect_right(later, ending.hlc)
        for operation in near:
            known = tried.get((id(operation), ending.trace_id, ending.agent_name))
            if known is None:
                continue
            # An operation has a step of its own; elsewhere, a later failure has its own fallback.
            alone = operation.kind == "fallback" or operation is step or following == len(later)
            outcome = known.outcome(ending.hlc, None if alone else later[following])
            if outcome is not None:
                found[id(ending)] = {"fallback_successful": outcome}
                break
    return found


class _Tried:
    """Fallbacks of one agent in one operation, in order."""

    __slots__ = ("_hlcs", "_successes")

    def __init__(self) -> None:
        self._hlcs: list[int] = []
        self._successes = [0]
        """Number of successful ones before each."""

    def add(self, row: EventRow) -> None:
        """Add the next one."""
        self._hlcs.append(row.hlc)
        self._successes.append(self._successes[-1] + bool(row.fallback_successful))

    def outcome(self, after: int, before: int | None) -> bool | None:
        """Return whether one between two clock values succeeded; `None` if there was none."""
        first = bisect_left(self._hlcs, after)
        end = len(self._hlcs) if before is None else bisect_left(self._hlcs, before)
        return self._successes[end] > self._successes[first] if end > first else None
