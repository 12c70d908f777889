"""Operations that took more than one try: attempts, waits and fallbacks in one line each."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracereel_collector.query.run.rows import EventRow
from tracereel_collector.query.run.steps import FALLBACK, RETRY, Step
from tracereel_collector.query.run.tree import Run, tries_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One try, or one takeover."""

    what: str
    """attempt or fallback."""
    number: int | None = None
    step: Step | None = None
    agent: str = ""
    status: str = ""
    """failed, success …; of the last try, how the operation went."""
    error: str = ""
    reason: str = ""
    waited_ms: float | None = None
    """How long was waited before the next try."""
    at: int = 0
    confidence: float | None = None
    quality_delta: float | None = None


@dataclass(slots=True)
class Chain:
    """What was asked for once, with everything that was tried for it."""

    operation: Step
    """What the tries are in; where nothing is around them, the last of them."""
    links: list[Link] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """How the operation ended."""
        return self.operation.status

    @property
    def began(self) -> int:
        """When the first try began, by the clock of the run."""
        tries = [link.step.began for link in self.links if link.step is not None]
        return min([self.operation.began, *tries])


def chains_of(run: Run) -> list[Chain]:
    """The chains of a run, in the order in which they begin."""
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
            # Tried again, then given up: one story.
            outer = found[id(around)]
            outer.links = [*(each for each in outer.links if each.step is not chain.operation)]
            outer.links = sorted([*outer.links, *chain.links], key=lambda link: link.at)
            del found[id(chain.operation)]
    chains = [*found.values(), *_side_by_side(run)]
    return sorted(chains, key=lambda chain: chain.began)


def repeated(run: Run) -> set[int]:
    """Steps that were tried again as a whole, by identity."""
    return {id(step) for step in run.steps if step.status == "retried" or step.again is not None}


def _is_of_loop_around(step: Step, row: EventRow) -> bool:
    """Whether a retry is of the step as a whole: a loop with no step of its own told of it."""
    closing = step.closing
    return (
        row.event_type == RETRY
        and closing is not None
        and row.hlc > closing.hlc
        and bool(row.span_id)
    )


def _side_by_side(run: Run) -> Iterable[Chain]:
    """The chains of loops that have no step of their own: the tries follow each other."""
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


def _chain(found: dict[int, Chain], operation: Step) -> Chain:
    return found.setdefault(id(operation), Chain(operation))


def _links(operation: Step) -> Iterable[Link]:
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


def _own_retry(step: Step) -> EventRow | None:
    closing = step.closing
    return closing if closing is not None and closing.event_type == RETRY else None


def _of_step(step: Step, number: int, retry: EventRow | None) -> Link:
    closing = step.closing
    error = closing.error_message or closing.error_type if closing is not None else ""
    return Link(
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


def _of_retry(row: EventRow, operation: Step) -> Link:
    return Link(
        what="attempt",
        number=row.retry_attempt,
        agent=row.agent_name or operation.agent,
        status="failed",
        error=row.error_message,
        reason=row.reason,
        waited_ms=_waited(row),
        at=row.hlc,
    )


def _last_of(operation: Step, retry: EventRow, moments: list[EventRow]) -> Link:
    """The try after the last repetition: the operation's own end, unless another took over."""
    taken_over = any(row.event_type == FALLBACK for row in moments)
    closing = operation.closing
    return Link(
        what="attempt",
        number=(retry.retry_attempt or 0) + 1,
        agent=operation.agent,
        status="failed" if taken_over else operation.status,
        error=closing.error_message if closing is not None else "",
        at=retry.hlc + 1,
        confidence=closing.confidence if closing is not None and not taken_over else None,
    )


def _of_fallback(row: EventRow, operation: Step) -> Link:
    took = [step for step in operation.children if step.agent == row.fallback_agent]
    return Link(
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
    """How long was waited between tries, in all."""
    return sum(link.waited_ms or 0.0 for chain in chains for link in chain.links)
