"""Waits for people: approvals, their resolution, and an agent's active time."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import structs

from tracereel.providers.base import Approval, NormalizedEvent
from tracereel.providers.reading import get, items, mapping, text

_DECISIONS: Final = {
    **dict.fromkeys(("approve", "edit", "accept"), True),
    **dict.fromkeys(("reject", "ignore"), False),
}
"""LangChain decision → whether the action is approved."""


def read_approvals(value: Any) -> list[Approval]:
    """Read the `approvals` of a state; entries without an id are numbered."""
    return [
        Approval(
            id=text(get(each, "id", "approval_id", "approvalId")) or f"approval_{position}",
            tool_name=text(get(each, "tool_name", "toolName", "name")),
            question=get(each, "question", "description", "args"),
            approved=_flag(get(each, "approved")),
            requested_at=_seconds(get(each, "requested_at", "requestedAt")),
            resolved_at=_seconds(get(each, "resolved_at", "resolvedAt")),
        )
        for position, each in enumerate(items(value))
        if isinstance(each, dict)
    ]


def read_interrupts(value: Any) -> list[Approval]:
    """Read LangGraph's `__interrupt__`: one approval, or one per requested action."""
    found: list[Approval] = []
    for position, interrupt in enumerate(items(value)):
        question = mapping(interrupt).get("value")
        identity = text(get(mapping(interrupt), "id", "interrupt_id")) or f"interrupt_{position}"
        actions = items(mapping(question).get("action_requests"))
        if not actions:
            found.append(Approval(id=identity, question=question))
        for number, action in enumerate(actions):
            name = text(get(mapping(action), "name", "action"))
            found.append(Approval(id=f"{identity}:{number}", tool_name=name, question=action))
    return found


def read_answers(pending: Sequence[Approval], resume: Any, *, at: float) -> list[Approval]:
    """Return the approvals that LangGraph's `Command(resume=…)` resolves, with the time.

    `resume` is one value for all, or a mapping by interrupt id. If it is not a boolean, its
    `decisions` are used, one per action.
    """
    names_them = isinstance(resume, dict) and any(_interrupt_of(each) in resume for each in pending)
    found = []
    for each in pending:
        answer = resume
        if names_them:
            if (interrupt := _interrupt_of(each)) not in resume:
                continue
            answer = resume[interrupt]
        resolved = structs.replace(each, approved=_is_yes(each, answer), resolved_at=at)
        found.append(resolved)
    return found


def _interrupt_of(approval: Approval) -> str:
    interrupt, _, number = approval.id.rpartition(":")
    return interrupt if interrupt and number.isdigit() else approval.id


def _is_yes(approval: Approval, answer: Any) -> bool | None:
    if isinstance(answer, bool):
        return answer
    decisions = items(mapping(answer).get("decisions")) or items(answer)
    number = approval.id.rpartition(":")[2]
    place = int(number) if number.isdigit() and _interrupt_of(approval) != approval.id else 0
    if place >= len(decisions):
        return None
    return _DECISIONS.get(text(mapping(decisions[place]).get("type")) or "")


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 1e12:
        return None
    return None if math.isnan(value) else float(value)


def waited_seconds(events: Iterable[NormalizedEvent], *, since: float, until: float) -> float:
    """Return the seconds spent waiting for people; overlapping waits count once.

    An unresolved approval waits until the end.
    """
    pending: dict[str, float] = {}
    waits: list[tuple[float, float]] = []
    for event in events:
        approval = event.approval
        if approval is None:
            continue
        if event.type == "approval_requested" and approval.requested_at is not None:
            pending[approval.id] = approval.requested_at
        elif event.type == "approval_resolved":
            start = pending.pop(approval.id, approval.requested_at)
            if start is not None:
                end = until if approval.resolved_at is None else approval.resolved_at
                waits.append((start, end))
    waits.extend((start, until) for start in pending.values())
    total, reached = 0.0, since
    for start, end in sorted(waits):
        begin, stop = max(start, reached), min(end, until)
        if stop > begin:
            total += stop - begin
            reached = stop
    return total


def active_seconds(events: Iterable[NormalizedEvent], *, since: float, until: float) -> float:
    """Return the seconds in a period without waits for people."""
    return max(0.0, until - since - waited_seconds(events, since=since, until=until))
