"""Steps around attempts in which nothing was retried or replaced; a tree leaves them out by default."""

from collections.abc import Sequence
from typing import Final

from tracereel_collector.query.run.steps import FALLBACK, RETRY, RunStep

_FINE: Final = frozenset({"success", "partial_success"})
_AROUND: Final = frozenset({"retry", "fallback"})


def without_idle(steps: Sequence[RunStep]) -> list[RunStep]:
    """Return the steps without idle ones; parents must precede their children.

    Children of an idle step go to the step around it, and so do its events; those of a root go to its
    first child. The children of the remaining steps must be set again.
    """
    idle = {id(step) for step in steps if _is_idle(step)}
    heirs: dict[int, RunStep] = {}
    for step in steps if idle else ():
        parent = step.parent
        if parent is not None and id(parent) in idle:
            # Parents precede their children, so the parent of this one is final.
            parent = step.parent = parent.parent
            step.parent_id = "" if parent is None else parent.id
        if id(step) not in idle:
            continue
        if parent is not None:
            heir = parent
            heir.events.extend(step.events)
        elif step.children:
            heir = step.children[0]
            step.events.extend(heir.events)
            heir.events = step.events
            heir.parent_trace_id = heir.parent_trace_id or step.parent_trace_id
        else:  # nothing else would show its events
            idle.discard(id(step))
            continue
        heir.span_events.extend(step.span_events)
        heirs[id(heir)] = heir
    for heir in heirs.values():
        heir.events.sort(key=lambda row: (row.hlc, row.sequence_number))
    return [step for step in steps if id(step) not in idle]


def _is_idle(step: RunStep) -> bool:
    if step.status not in _FINE:
        return False
    if step.kind == "attempt":
        return (step.ending.attempt or 1) == 1
    if step.kind not in _AROUND:
        return False
    tries = [child for child in step.children if child.kind in ("agent", "attempt")]
    return len(tries) <= 1 and not any(
        row.event_type in (RETRY, FALLBACK)
        for each in (step, *step.children)
        for row in each.events
    )
