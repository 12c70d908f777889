"""First error of a run, its cause, and the error that the run ended with."""

from dataclasses import dataclass

from tracereel_collector.query.run.rows import EventRow
from tracereel_collector.query.run.steps import RETRY, RunStep
from tracereel_collector.query.run.tree import RunTree, tries_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailure:
    """Error of a step."""

    step: RunStep
    error_type: str
    message: str
    code: str
    category: str
    stage: str
    at: int
    """Time of the error, on the clock of the run."""


def failure_of(step: RunStep) -> StepFailure | None:
    """Return the failure of a step; `None` if it did not fail."""
    if not step.is_failed and step.status != "crashed":
        return None
    row, span = step.closing, step.span
    at = step.ended if step.ended is not None else step.began
    if row is not None:
        return _told(step, row, at)
    return StepFailure(
        step=step,
        error_type="crashed" if step.status == "crashed" else (span.error_type if span else ""),
        message="its emitter is gone" if step.status == "crashed" else _message(step),
        code="",
        category="",
        stage="",
        at=at,
    )


def first_failure(run: RunTree) -> StepFailure | None:
    """Return the earliest error, handled or not; of simultaneous ones the innermost."""
    found: list[StepFailure] = []
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
    # Later positions are deeper in the tree.
    return min(found, key=lambda each: (each.at, -places[id(each.step)]))


def last_failure(run: RunTree) -> StepFailure | None:
    """Return the error that the run ended with; `None` if it did not fail."""
    main = run.main
    return None if main is None else failure_of(main)


def cause_of(failure: StepFailure) -> StepFailure:
    """Return the origin of an error: descend into the failing child that ended last."""
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


def was_handled(failure: StepFailure) -> bool:
    """Return whether the failing step or an ancestor finally succeeded, possibly by a retry."""
    step: RunStep | None = failure.step
    while step is not None:
        if tries_of(step)[-1].status in ("success", "partial_success"):
            return True
        step = step.parent
    return False


def _told(step: RunStep, row: EventRow, at: int) -> StepFailure:
    error_type, message = row.error_type, row.error_message
    if not error_type and ":" in message:  # retry events give the error as `Type: message`
        kind, _, rest = message.partition(":")
        if kind.isidentifier():
            error_type, message = kind, rest.strip()
    return StepFailure(
        step=step,
        error_type=error_type,
        message=message,
        code=row.error_code,
        category=row.error_category,
        stage=row.stage,
        at=at,
    )


def _message(step: RunStep) -> str:
    return step.span.status_message if step.span is not None else ""
