"""A run as a tree: every step under the one that caused it, and what the whole amounts to."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tracereel_collector.errors import NotFoundError
from tracereel_collector.query.brief import brief_of
from tracereel_collector.query.run.analysis import Analysis, analyse, settled
from tracereel_collector.query.run.rows import RunReader
from tracereel_collector.query.run.shape import ShownStep, moment, shown_chain, shown_step
from tracereel_collector.query.run.steps import Step
from tracereel_collector.query.run.summary import summary_of
from tracereel_collector.query.run.tree import walk

MAX_EVENTS_OF_STEP = 200
"""Most events of one step that are shown whole."""
MAX_CHAINS = 200
"""Most chains shown; the summary counts all retries and fallbacks."""


@dataclass(frozen=True, slots=True)
class Traces:
    """Answers `GET /v1/traces/{trace_id}`."""

    reader: RunReader
    now_unix_nano: Callable[[], int] = time.time_ns

    def analysis(
        self, tenant: str, trace_id: str, *, whole: bool = False, linked: bool = True
    ) -> Analysis:
        """The run with everything worked out.

        Raises:
            NotFoundError: this tenant has nothing of that id.
        """
        rows = self.reader.read(tenant, trace_id, whole=whole, linked=linked)
        run = settled(self.reader, tenant, rows, now_unix_nano=self.now_unix_nano())
        return analyse(run, rows.prices)

    def document(
        self,
        tenant: str,
        trace_id: str,
        *,
        linked: bool = True,
        step_id: str | None = None,
        budget: int | None = None,
    ) -> bytes:
        """The tree as JSON; or the part below one step, or the most important of it in a budget.

        Raises:
            NotFoundError: this tenant has nothing of that id, or the run no such step.
        """
        analysis = self.analysis(tenant, trace_id, linked=linked)
        top = _step(analysis, step_id) if step_id is not None else None
        if budget is not None:
            roots = analysis.run.roots if top is None else [top]
            return brief_of(analysis, roots, budget=budget)
        if top is not None:
            return msgspec.json.encode(self._part(tenant, analysis, top))
        return msgspec.json.encode(document_of(analysis))

    def _part(self, tenant: str, analysis: Analysis, top: Step) -> dict[str, Any]:
        numbers = [row.sequence_number for row in top.events[:MAX_EVENTS_OF_STEP]]
        sent = self.reader.payloads(tenant, top.trace_id, numbers) if numbers else []
        return {
            **head_of(analysis),
            "step": top.id,
            "steps": listed(analysis, [top]),
            "events": [msgspec.Raw(payload.encode()) for _, _, payload in sent],
        }


def _step(analysis: Analysis, step_id: str) -> Step:
    for step in analysis.run.steps:
        if step.id == step_id:
            return step
    raise NotFoundError(
        f"run {analysis.run.trace_id!r} has no step {step_id[:80]!r}", hint="see `id` of its steps"
    )


def document_of(analysis: Analysis) -> dict[str, Any]:
    """The whole tree: `steps` in order, each behind its parent."""
    run = analysis.run
    origin = run.began
    return {
        **head_of(analysis),
        "steps": listed(analysis, run.roots),
        "chains": [shown_chain(chain, origin=origin) for chain in analysis.chains[:MAX_CHAINS]],
        "summary": summary_of(analysis),
    }


def head_of(analysis: Analysis) -> dict[str, Any]:
    """Which run, when, and whose."""
    run = analysis.run
    sessions = (row.session_id for row in run.events if row.session_id)
    users = (row.user_id for row in run.events if row.user_id)
    parents = (row.parent_trace_id for row in run.events if row.trace_id == run.trace_id)
    return {
        "trace_id": run.trace_id,
        "otel_trace_ids": sorted(
            {row.otel_trace_id for row in run.events} | {row.trace_id for row in run.spans}
        ),
        "parent_trace_id": next((each for each in parents if each), None),
        "session_id": next(sessions, None),
        "user_id": next(users, None),
        "time": moment(run.began),
        "state": analysis.state,
    }


def listed(analysis: Analysis, roots: Sequence[Step]) -> list[ShownStep]:
    """Every step once, each behind its parent: a flat list, however deep the tree is."""
    origin, totals = analysis.run.began, analysis.totals
    depths: dict[int, int] = {}
    shown = []
    for step in walk(roots):
        depth = depths.get(id(step.parent), -1) + 1
        if step.children:
            depths[id(step)] = depth
        shown.append(shown_step(step, depth=depth, origin=origin, usage=totals[id(step)]))
    return shown
