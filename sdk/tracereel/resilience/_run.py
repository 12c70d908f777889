"""One call with its attempts: their spans, their events, and whether another one follows.

The sync and the async wrapper call and sleep; everything else of a retry is here, for both.
"""

import asyncio
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from tracereel import _failures, _guard, _values, semconv
from tracereel._clock import rfc3339
from tracereel._context import Execution
from tracereel._run import lock
from tracereel.resilience import _slots
from tracereel.resilience._announced import Repeatable
from tracereel.resilience._functions import Subject, asked
from tracereel.resilience._place import Mark, OwnSpan, Place, enter, error_fields, leave, outcome_of
from tracereel.resilience._policy import Policy, Verdict


class Run(AbstractContextManager["Run", None]):
    """The attempts of one call: `begin` each, then say how it went; the answer is the delay."""

    __slots__ = (
        "_confidence_before",
        "_mark",
        "_outer",
        "_place",
        "_policy",
        "_repeatable",
        "_slot",
        "_span",
        "_within",
        "attempt",
    )

    def __init__(self, policy: Policy, subject: Subject) -> None:
        self._policy = policy
        self._outer = _slots.current()
        self._place = Place("retry", subject)
        self._within = _slots.waiting(self._place.tag)
        self._confidence_before: Any = None
        self._slot: _slots.Slot | None = None
        self._mark: Mark | None = None
        self._span: OwnSpan | None = None
        self._repeatable: Repeatable = {}
        self.attempt = 0

    def __enter__(self) -> Self:
        if (noted := self._noted()) is not None:
            # Said of what went before; the attempts are judged by what they say themselves.
            self._confidence_before = noted.notes.get("confidence")
        return self

    def begin(self) -> None:
        """An attempt starts."""
        self.attempt += 1
        place, execution = self._place, self._place.execution
        if not place.records:
            return
        with _guard.Guard("retry"):
            self._slot = _slots.Slot(
                place.tag,
                attempt=self.attempt,
                last=place.tag is not None and self.attempt == self._policy.attempts > 1,
                execution=execution if place.tag is None else None,
                within=self._within if place.tag is not None else None,
                state=place.state,
                repeatable=self._repeatable,
            )
            if place.tag is None and execution is not None:
                if self._outer is None or not self._outer.numbers(execution):
                    execution.attempt = self.attempt
                self._span = place.start_attempt(self.attempt)
            if (noted := self._noted()) is not None:
                noted.notes.pop("confidence", None)
            self._mark = enter(self._slot, self._span)

    def limit(self, deadline: asyncio.Timeout) -> None:
        """The attempt will be stopped there."""
        if self._slot is not None and self._policy.timeout is not None:
            self._slot.deadline = deadline, self._policy.timeout

    def failed(self, error: BaseException) -> float | None:
        """The attempt has raised; null: so does the call."""
        if self._slot is not None and self._slot.deadline is not None:
            with _guard.Guard("retry"):
                self._mark_late(self._slot, error)
        verdict = self._policy.after_error(error, self.attempt)
        self._end(verdict, error, error)
        return verdict.delay

    def returned(self, result: object) -> float | None:
        """The attempt has returned; null: so does the call."""
        verdict = self._policy.after_result(self._confidence(result), self.attempt)
        self._end(verdict, None, result)
        return verdict.delay if verdict is not None else None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._place.execution is None:
            return
        with _guard.Guard("retry"):
            noted = self._noted()
            if noted is not None and self._confidence_before is not None:
                noted.notes.setdefault("confidence", self._confidence_before)
            self._place.close(error)

    def _mark_late(self, slot: _slots.Slot, error: BaseException) -> None:
        """Leave word of the limit on the timeout that Python has made of a cancellation."""
        limit, inside = slot.limit_passed, slot.execution
        if limit is None or not isinstance(error, TimeoutError):
            return
        _failures.mark_limit(error, limit)
        if self._place.tag is not None and inside is not None and inside.parent is not None:
            origin = _failures.Origin(inside.execution_id, None, inside.parent.span_id)
            _failures.mark_origin(error, origin)

    def _end(self, verdict: Verdict | None, error: BaseException | None, outcome: object) -> None:
        if verdict is None and self._mark is None:
            return
        with _guard.Guard("retry"):
            mark, self._mark = self._mark, None
            if mark is not None:
                leave(mark)
            place, slot, end_ns = self._place, self._slot, time.time_ns()
            again = verdict is not None and verdict.delay is not None
            cost = 0.0
            if slot is not None:
                place.follow(slot)
                cost, wasted = slot.settle(failed=again or error is not None)
                place.waste("attempt", wasted)
                if again:
                    slot.give_up(self._repeatable)
            span, self._span = self._span, None
            described: dict[str, Any] = {}
            if span is not None:
                _, text = outcome_of(error)
                refused = verdict.error if verdict is not None and error is None else None
                described = span.end(text or refused)
            if verdict is not None and verdict.delay is not None:
                self._announce(verdict, verdict.delay, end_ns, cost, described)
                return
            if described:
                place.end_attempt(self.attempt, described, _outcome(verdict, error))
            if verdict is not None and verdict.exhausted:
                self._give_up(outcome)

    def _announce(
        self, verdict: Verdict, delay: float, now_ns: int, cost: float, span: dict[str, Any]
    ) -> None:
        place = self._place
        event = retry_event(
            agent=place.agent,
            attempt=self.attempt,
            error=verdict.error,
            reason=verdict.reason,
            strategy=_values.label(self._policy.strategy.name) or "",
            delay=delay,
            now_ns=now_ns,
        )
        if place.execution is not None and place.tag is None:
            count_retry(place.execution)
        event["max_attempts"] = self._policy.attempts
        if self._policy.timeout is not None:
            event["timeout_seconds"] = self._policy.timeout
        if cost > 0.0:
            event["wasted_cost_usd"] = cost
        event.update(span)
        place.emit(event)

    def _give_up(self, outcome: object) -> None:
        if self._outer is not None:
            self._outer.exhausted = outcome
        execution = self._place.execution
        if execution is not None and self._policy.attempts > 1:
            execution.max_retries_reached = execution.agent.max_retries_reached = True

    def _confidence(self, result: object) -> float | None:
        if self._policy.min_confidence is None:
            return None
        if (of := self._policy.confidence_of) is not None:
            return _values.real(asked("confidence_of", of, result))
        noted = self._slot.execution if self._slot is not None else None
        return noted.agent.notes.get("confidence") if noted is not None else None

    def _noted(self) -> Execution | None:
        """The execution around, where its confidence is what attempts are judged by."""
        policy, place = self._policy, self._place
        if policy.min_confidence is None or policy.confidence_of is not None or place.tag:
            return None
        return place.execution.agent if place.execution is not None else None


def _outcome(verdict: Verdict | None, error: BaseException | None) -> dict[str, Any]:
    """What the event of the last attempt says of how it went."""
    status, text = outcome_of(error)
    if error is not None:
        return error_fields(error) if text is not None else {"status": status}
    if verdict is None:
        return {}
    # Returned all the same, for want of another attempt.
    kind, _, message = verdict.error.partition(": ")
    return {"status": semconv.FAILED, "error_type": kind, "error_message": message}


def retry_event(
    *,
    agent: str,
    attempt: int,
    error: str,
    reason: str,
    strategy: str,
    delay: float,
    now_ns: int,
) -> dict[str, Any]:
    """The event of an attempt that failed and is followed by another; its outcome is still open."""
    return {
        "event_type": semconv.RETRY_ATTEMPTED,
        "agent_name": agent,
        "retry_attempt": attempt,
        "original_error": error,
        "retry_reason": reason,
        "retry_strategy": strategy,
        "delay_seconds": delay,
        "next_retry_at": rfc3339(now_ns + round(delay * 1e9)),
        "retry_successful": None,
        "attempt": attempt,
    }


def count_retry(execution: Execution) -> None:
    """One retry more within an execution; its closing event, and its agent's, say how many."""
    with lock:
        execution.retry_count += 1
        if (agent := execution.agent) is not execution:
            agent.retry_count += 1
