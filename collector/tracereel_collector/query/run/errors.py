"""Which error came first, where it came from, and which one the run ended with."""

from dataclasses import dataclass

from tracereel_collector.query.run.rows import EventRow
from tracereel_collector.query.run.steps import RETRY, Step
from tracereel_collector.query.run.tree import Run, tries_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error as it showed itself in a step."""

    step: Step
    error_type: str
    message: str
    code: str
    category: str
    stage: str
    at: int
    """When, by the clock of the run."""


def failure_of(step: Step) -> Failure | None:
    """How a step failed; None when it did not."""
    if not step.is_failed and step.status != "crashed":
        return None
    row, span = step.closing, step.span
    at = step.ended if step.ended is not None else step.began
    if row is not None:
        return _told(step, row, at)
    return Failure(
        step=step,
        error_type="crashed" if step.status == "crashed" else (span.error_type if span else ""),
        message="its emitter is gone" if step.status == "crashed" else _message(step),
        code="",
        category="",
        stage="",
        at=at,
    )


def first_failure(run: Run) -> Failure | None:
    """The earliest error, handled or not: of a failing call and the agent around it, the call's."""
    found: list[Failure] = []
    retried = any(row.event_type == RETRY for row in run.events)
    for step in run.steps:
        if step.status != "success" and (failure := failure_of(step)) is not None:
            found.append(failure)
        if retried:
            found += [
                _told(step, row, row.unix_nano + step.shift)
                for row in step.events
                if row.event_type == RETRY and row is not step.closing
            ]
    if not found:
        return None
    places = {id(step): place for place, step in enumerate(run.steps)}
    # What is further down stands behind what is around it.
    return min(found, key=lambda each: (each.at, -places[id(each.step)]))


def last_failure(run: Run) -> Failure | None:
    """The error that the run ended with; None when it did not fail."""
    main = run.main
    return None if main is None else failure_of(main)


def cause_of(failure: Failure) -> Failure:
    """Where an error came from: down along the failing step that ended last, to the deepest."""
    origin = failure
    step = failure.step
    while True:
        failing = [
            found
            for child in step.children
            if (found := failure_of(child)) is not None and found.at <= failure.at + 1_000_000
        ]
        if not failing:
            return origin
        origin = max(failing, key=lambda each: (each.at, each.step.position))
        step = origin.step


def was_handled(failure: Failure) -> bool:
    """Whether the failing step or something around it went on, or was tried again, and succeeded."""
    step: Step | None = failure.step
    while step is not None:
        if tries_of(step)[-1].status in ("success", "partial_success"):
            return True
        step = step.parent
    return False


def _told(step: Step, row: EventRow, at: int) -> Failure:
    error_type, message = row.error_type, row.error_message
    if not error_type and ":" in message:  # a retry names its error as `Type: message`
        kind, _, rest = message.partition(":")
        if kind.isidentifier():
            error_type, message = kind, rest.strip()
    return Failure(
        step=step,
        error_type=error_type,
        message=message,
        code=row.error_code,
        category=row.error_category,
        stage=row.stage,
        at=at,
    )


def _message(step: Step) -> str:
    return step.span.status_message if step.span is not None else ""
