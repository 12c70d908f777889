"""Trace of a run: the tree of its steps and a summary."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from tracereel_collector.errors import StepNotFoundError
from tracereel_collector.query.budgeted_tree import brief_of
from tracereel_collector.query.content.short import short_texts
from tracereel_collector.query.run.analysis import Analysis, analyse
from tracereel_collector.query.run.rows import RunReader, RunRows
from tracereel_collector.query.run.serialize import ShownStep, moment, shown_chains, shown_step
from tracereel_collector.query.run.steps import MILLI, RunStep
from tracereel_collector.query.run.summary import summary_of
from tracereel_collector.query.run.tree import RunTree, build, depths_of, is_open, settle, walk
from tracereel_collector.runtime.collections import collections_paused

MAX_EVENTS_OF_STEP = 200
"""Maximum events of one step that are shown in full."""


@dataclass(frozen=True, slots=True)
class Traces:
    """Query of `GET /v1/traces/{trace_id}`."""

    reader: RunReader
    now_unix_nano: Callable[[], int] = time.time_ns

    def analysis(
        self,
        tenant: str,
        trace_id: str,
        *,
        whole: bool = False,
        linked: bool = True,
        content: bool = True,
        attempts: bool = False,
    ) -> Analysis:
        """Return the analysed run; `content` as in `RunReader.read`, `attempts` as in `build`."""
        rows = self.reader.read(tenant, trace_id, whole=whole, linked=linked, content=content)
        return analyse(self._settled(tenant, rows, attempts=attempts), rows.prices)

    def run(self, tenant: str, trace_id: str, *, linked: bool = True) -> RunTree:
        """Return the tree of a run without further analysis."""
        return self._settled(tenant, self.reader.read(tenant, trace_id, linked=linked))

    def _settled(self, tenant: str, rows: RunRows, *, attempts: bool = False) -> RunTree:
        """Build the run and set the status of steps without an end."""
        run, now = build(rows, attempts=attempts), self.now_unix_nano()
        waiting = {step.clock for step in run.steps if is_open(step)}
        if waiting:
            emitters = self.reader.emitters(tenant, waiting, now_unix_milli=now // MILLI)
            settle(run, emitters, now_unix_nano=now)
        return replace(run, now=now)

    def document(
        self,
        tenant: str,
        trace_id: str,
        *,
        linked: bool = True,
        step_id: str | None = None,
        alone: bool = False,
        budget: int | None = None,
        outline_above: int | None = None,
        attempts: bool = False,
    ) -> bytes:
        """Return the tree of a run, or a part of it, as JSON.

        `step_id` selects the part below one step, and `alone` the step itself. `budget` limits the response
        to the most important steps. Above `outline_above` steps, an outline replaces the steps. `attempts`
        keeps steps in which nothing was retried or replaced.
        """
        if alone and step_id is not None:
            return msgspec.json.encode(self._alone(tenant, trace_id, step_id))
        with collections_paused():
            return self._document(
                tenant,
                trace_id,
                linked=linked,
                step_id=step_id,
                budget=budget,
                outline_above=outline_above,
                attempts=attempts,
            )

    def _document(
        self,
        tenant: str,
        trace_id: str,
        *,
        linked: bool,
        step_id: str | None,
        budget: int | None,
        outline_above: int | None,
        attempts: bool,
    ) -> bytes:
        analysis = self.analysis(tenant, trace_id, linked=linked, attempts=attempts)
        top = _step(analysis, step_id) if step_id is not None else None
        if budget is not None:
            roots = analysis.run.roots if top is None else [top]
            said = partial(short_texts, self.reader, tenant)
            return brief_of(analysis, roots, budget=budget, said=said)
        if top is not None:
            part = {"steps": listed(analysis, list(walk([top]))), "events": self._sent(tenant, top)}
            return msgspec.json.encode({**head_of(analysis), "step": top.id, **part})
        outlined = outline_above is not None and len(analysis.run.steps) > outline_above
        return msgspec.json.encode(document_of(analysis, outlined=outlined))

    def _alone(self, tenant: str, trace_id: str, step_id: str) -> dict[str, Any]:
        """Return a single step; in a long run, reading only its events is fast."""
        rows = self.reader.step_rows(tenant, trace_id, step_id)
        # Events without spans are grouped into steps by name, which needs all events of the run.
        if rows.events and all(row.span_id for row in rows.events):
            analysis = analyse(self._settled(tenant, rows, attempts=True), {})
        else:  # also for foreign spans and steps of child runs
            analysis = self.analysis(tenant, trace_id, attempts=True)
        top = _step(analysis, step_id)
        (shown,) = listed(analysis, [top])
        return {"trace_id": trace_id, "step": shown, "events": self._sent(tenant, top)}

    def _sent(self, tenant: str, step: RunStep) -> list[msgspec.Raw]:
        """Return the events of a step as they were sent."""
        numbers = [row.sequence_number for row in step.events[:MAX_EVENTS_OF_STEP]]
        sent = self.reader.payloads(tenant, step.trace_id, numbers) if numbers else []
        return [msgspec.Raw(payload.encode()) for payload in sent]


def _step(analysis: Analysis, step_id: str) -> RunStep:
    for step in analysis.run.steps:
        if step.id == step_id:
            return step
    raise StepNotFoundError(
        f"Step not found: {step_id[:80]!r} of run {analysis.run.trace_id!r}",
        hint="see `id` of its steps; ?attempts=all has all of them",
    )


def document_of(analysis: Analysis, *, outlined: bool = False) -> dict[str, Any]:
    """Return the whole tree: `steps`, each after its parent, or a short `outline`."""
    steps = analysis.run.steps
    body = {"outline": outline_of(analysis)} if outlined else {"steps": listed(analysis, steps)}
    return {
        **head_of(analysis),
        **body,
        "chains": shown_chains(analysis),
        "summary": summary_of(analysis),
    }


def head_of(analysis: Analysis) -> dict[str, Any]:
    """Return the identity, start and state of a run."""
    run, identity = analysis.run, analysis.identity
    parents = (row.parent_trace_id for row in run.events if row.trace_id == run.trace_id)
    return {
        "trace_id": run.trace_id,
        "otel_trace_ids": sorted(
            {row.otel_trace_id for row in run.events} | {row.trace_id for row in run.spans}
        ),
        "parent_trace_id": next((each for each in parents if each), None),
        "name": identity.name or None,
        "session_id": identity.session_id or None,
        "user_id": identity.user_id or None,
        "time": moment(run.began),
        "state": analysis.state,
    }


def listed(analysis: Analysis, steps: Sequence[RunStep]) -> list[ShownStep]:
    """Return steps in display form as a flat list; parents must precede their children."""
    origin, totals, outcomes = analysis.run.began, analysis.totals, analysis.outcomes
    return [
        shown_step(step, depth=depth, origin=origin, usage=totals[id(step)], outcomes=outcomes)
        for step, depth in zip(steps, depths_of(steps), strict=True)
    ]


def outline_of(analysis: Analysis) -> dict[str, list[Any]]:
    """Return the fields that a chart of a long run needs, as columns in tree order."""
    steps, totals = analysis.run.steps, analysis.totals
    origin = analysis.run.began
    usages = [totals[id(step)] for step in steps]
    return {
        "depth": depths_of(steps),
        "offset_ms": [(step.began - origin) / MILLI for step in steps],
        "tokens": [usage.tokens for usage in usages],
        "cost_usd": [usage.cost_usd for usage in usages],
        "id": [step.id for step in steps],
        "kind": [step.kind for step in steps],
        "name": [step.name for step in steps],
        "status": [step.status for step in steps],
        "agent": [step.agent for step in steps],
        "duration_ms": [
            None if step.end is None else (step.end - step.start) / MILLI for step in steps
        ],
        "attempt": [step.ending.attempt for step in steps],
        "confidence": [step.ending.confidence for step in steps],
        "children": [len(step.children) for step in steps],
        "clock_shift_ms": [step.shift / MILLI if step.shift else None for step in steps],
    }
