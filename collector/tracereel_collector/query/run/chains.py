"""Chains: operations with several attempts, with their delays and fallbacks."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracereel_collector.query.run.rows import EventRow
from tracereel_collector.query.run.steps import FALLBACK, RETRY, RunStep
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
            _chain(found, step.parent)
        for row in step.events:
            if row.event_type not in (RETRY, FALLBACK) or row is step.closing:
                continue
            if not _is_of_loop_around(step, row):
                _chain(found, step)
    for chain in found.values():
        chain.links = sorted(_links(chain.operation), key=lambda link: link.at)
    for chain in list(found.values()):
        around = chain.operation.parent
        if around is not None and chain.operation.kind == "retry" and id(around) in found:
            # Retries followed by a fallback form one chain.
            outer = found[id(around)]
            outer.links = [*(each for each in outer.links if each.step is not chain.operation)]
            outer.links = sorted([*outer.links, *chain.links], key=lambda link: link.at)
            del found[id(chain.operation)]
    chains = [*found.values(), *_side_by_side(run)]
    return sorted(chains, key=lambda chain: chain.began)


def repeated(run: RunTree) -> set[int]:
    """Return the steps that were retried as a whole, by `id(step)`."""
    return {id(step) for step in run.steps if step.status == "retried" or step.again is not None}


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
            retry = next((row for row in step.events if _is_of_loop_around(step, row)), None)
            number = retry.retry_attempt if retry is not None else None
            number = number or (step.closing.attempt if step.closing is not None else None)
            links.append(_of_step(step, number or count, retry))
        yield Chain(tries[-1], links)


def _chain(found: dict[int, Chain], operation: RunStep) -> Chain:
    return found.setdefault(id(operation), Chain(operation))


def _links(operation: RunStep) -> Iterable[ChainLink]:
    moments = [
        row
        for row in operation.events
        if row.event_type in (RETRY, FALLBACK) and not _is_of_loop_around(operation, row)
    ]
    retries = [row for row in moments if row.event_type == RETRY]
    took_over = {row.fallback_agent for row in moments if row.event_type == FALLBACK}
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
            closing = step.closing
            number = (closing.attempt if closing is not None else None) or count
            yield _of_step(step, number, by_number.get(number) or _own_retry(step))
    else:
        yield from (_of_retry(row, operation) for row in retries)
        if retries:
            yield _last_of(operation, retries[-1], moments)
    for row in moments:
        if row.event_type == FALLBACK:
            yield _of_fallback(row, operation)


def _own_retry(step: RunStep) -> EventRow | None:
    closing = step.closing
    return closing if closing is not None and closing.event_type == RETRY else None


def _of_step(step: RunStep, number: int, retry: EventRow | None) -> ChainLink:
    closing = step.closing
    error = closing.error_message or closing.error_type if closing is not None else ""
    return ChainLink(
        what="attempt",
        number=number,
        step=step,
        agent=step.agent,
        status="failed" if step.status == "retried" else step.status,
        error=(retry.error_message if retry is not None else "") or error,
        reason=retry.reason if retry is not None else "",
        waited_ms=_waited(retry),
        at=step.position,
        confidence=closing.confidence if closing is not None else None,
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
    )


def _last_of(operation: RunStep, retry: EventRow, moments: list[EventRow]) -> ChainLink:
    """Return the attempt after the last retry, which ends the operation or precedes a fallback."""
    taken_over = any(row.event_type == FALLBACK for row in moments)
    closing = operation.closing
    return ChainLink(
        what="attempt",
        number=(retry.retry_attempt or 0) + 1,
        agent=operation.agent,
        status="failed" if taken_over else operation.status,
        error=closing.error_message if closing is not None else "",
        at=retry.hlc + 1,
        confidence=closing.confidence if closing is not None and not taken_over else None,
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


def _waited(row: EventRow | None) -> float | None:
    return None if row is None or row.delay_seconds is None else row.delay_seconds * 1_000


def waiting_ms(chains: Iterable[Chain]) -> float:
    """Return the total delay between attempts."""
    return sum(link.waited_ms or 0.0 for chain in chains for link in chain.links)
