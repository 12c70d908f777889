"""Chains: operations with several attempts, with their delays and fallbacks."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracereel_collector.query.run.events import EventRow
from tracereel_collector.query.run.steps import FALLBACK, NO_EVENT, RETRY, RunStep
from tracereel_collector.query.run.tree import RunTree, tries_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    """One attempt or fallback."""

    what: str
    """attempt or fallback."""
    number: int | None = None
    step: RunStep | None = None
    agent: str = ""
    status: str = ""
    """Status of the attempt; the last one has the status of the operation."""
    error: str = ""
    reason: str = ""
    waited_ms: float | None = None
    """Delay before the next attempt."""
    at: int = 0
    confidence: float | None = None
    quality_delta: float | None = None
    retry: EventRow | None = None
    """Event of the retry that followed the attempt."""


@dataclass(slots=True)
class Chain:
    """Operation with all its attempts."""

    operation: RunStep
    """Step around the attempts; the last attempt if there is none."""
    links: list[ChainLink] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """Status of the operation."""
        return self.operation.status

    @property
    def began(self) -> int:
        """Start of the first attempt, on the clock of the run."""
        tries = [link.step.began for link in self.links if link.step is not None]
        return min([self.operation.began, *tries])


def chains_of(run: RunTree) -> list[Chain]:
    """Return the chains of a run, in order of their start."""
    found: dict[int, Chain] = {}
    for step in run.steps:
        if step.kind == "attempt" and step.status == "retried" and step.parent is not None:
            found.setdefault(id(step.parent), Chain(step.parent))
        for row in step.events:
            if row.event_type not in (RETRY, FALLBACK) or row is step.closing:
                continue
            if not _is_of_loop_around(step, row):
                found.setdefault(id(step), Chain(step))
    for chain in found.values():
        chain.links = sorted(_links(chain.operation), key=lambda link: link.at)
    for chain in list(found.values()):
        around = chain.operation.parent
        if around is not None and chain.operation.kind == "retry" and id(around) in found:
            # Retries followed by a fallback form one chain.
            outer = found[id(around)]
            others = [each for each in outer.links if each.step is not chain.operation]
            outer.links = sorted([*others, *chain.links], key=lambda link: link.at)
            del found[id(chain.operation)]
    chains = [*found.values(), *_side_by_side(run)]
    return sorted(chains, key=lambda chain: chain.began)


def _is_of_loop_around(step: RunStep, row: EventRow) -> bool:
    """Return whether a retry repeats the whole step, from a loop without a step."""
    closing = step.closing
    return (
        row.event_type == RETRY
        and closing is not None
        and row.hlc > closing.hlc
        and bool(row.span_id)
    )


def _side_by_side(run: RunTree) -> Iterable[Chain]:
    """Yield the chains of loops without a step of their own, whose attempts are siblings."""
    seen: set[int] = set()
    for first in run.steps:
        if id(first) in seen or not any(_is_of_loop_around(first, row) for row in first.events):
            continue
        links = []
        tries = tries_of(first)
        for count, step in enumerate(tries, start=1):
            seen.add(id(step))
            retries = (row for row in step.events if _is_of_loop_around(step, row))
            retry = next(retries, NO_EVENT)
            number = retry.retry_attempt or step.ending.attempt or count
            links.append(_of_step(step, number, retry))
        yield Chain(tries[-1], links)


def _links(operation: RunStep) -> Iterable[ChainLink]:
    moments = [
        row
        for row in operation.events
        if row.event_type in (RETRY, FALLBACK) and not _is_of_loop_around(operation, row)
    ]
    retries = [row for row in moments if row.event_type == RETRY]
    fallbacks = [row for row in moments if row.event_type == FALLBACK]
    took_over = {row.fallback_agent for row in fallbacks}
    tries = [
        step
        for step in operation.children
        if step.kind == "attempt"
        or (operation.kind in ("retry", "fallback") and step.kind == "agent")
        if step.kind == "attempt" or step.agent not in took_over
    ]
    if tries:
        by_number = {row.retry_attempt: row for row in retries}
        for count, step in enumerate(tries, start=1):
            number = step.ending.attempt or count
            own = step.ending if step.ending.event_type == RETRY else NO_EVENT
            yield _of_step(step, number, by_number.get(number) or own)
    else:
        yield from (_of_retry(row, operation) for row in retries)
        if retries:
            yield _last_of(operation, retries[-1], taken_over=bool(fallbacks))
    yield from (_of_fallback(row, operation) for row in fallbacks)


def _of_step(step: RunStep, number: int, retry: EventRow) -> ChainLink:
    ending = step.ending
    return ChainLink(
        what="attempt",
        number=number,
        step=step,
        agent=step.agent,
        status="failed" if step.status == "retried" else step.status,
        error=retry.error_message or ending.error_message or ending.error_type,
        reason=retry.reason,
        waited_ms=_waited(retry),
        at=step.position,
        confidence=ending.confidence,
        retry=None if retry is NO_EVENT else retry,
    )


def _of_retry(row: EventRow, operation: RunStep) -> ChainLink:
    return ChainLink(
        what="attempt",
        number=row.retry_attempt,
        agent=row.agent_name or operation.agent,
        status="failed",
        error=row.error_message,
        reason=row.reason,
        waited_ms=_waited(row),
        at=row.hlc,
        retry=row,
    )


def _last_of(operation: RunStep, retry: EventRow, *, taken_over: bool) -> ChainLink:
    """Return the attempt after the last retry, which ends the operation or precedes a fallback."""
    return ChainLink(
        what="attempt",
        number=(retry.retry_attempt or 0) + 1,
        agent=operation.agent,
        status="failed" if taken_over else operation.status,
        error=operation.ending.error_message,
        at=retry.hlc + 1,
        confidence=None if taken_over else operation.ending.confidence,
    )


def _of_fallback(row: EventRow, operation: RunStep) -> ChainLink:
    took = [step for step in operation.children if step.agent == row.fallback_agent]
    return ChainLink(
        what="fallback",
        step=took[-1] if took else None,
        agent=row.fallback_agent,
        status="success" if row.fallback_successful else "failed",
        error=row.error_message,
        reason=row.reason,
        at=row.hlc,
        confidence=row.confidence,
        quality_delta=row.quality_delta,
    )


def _waited(row: EventRow) -> float | None:
    return None if row.delay_seconds is None else row.delay_seconds * 1_000
