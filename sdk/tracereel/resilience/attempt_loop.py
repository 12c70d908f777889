"""Attempts of one retried call: their spans, events, and whether another one follows.

The sync and async wrappers only call and sleep; they share this logic.
"""

import asyncio
import time
from typing import Any

from tracereel import semconv
from tracereel._core import attempt_context, error_details
from tracereel._core.context import Execution
from tracereel._core.external_retries import Repeatable
from tracereel._core.run_state import lock
from tracereel._redact import values
from tracereel._runtime import guard
from tracereel._runtime.clock import rfc3339
from tracereel.resilience.policy import Policy, Verdict
from tracereel.resilience.retry_scope import (
    Mark,
    OwnSpan,
    RetryScope,
    enter,
    error_fields,
    leave,
    outcome_of,
)
from tracereel.resilience.wrapped_functions import Subject, asked


class AttemptLoop(RetryScope):
    """Attempts of one call.

    `begin` starts an attempt; `failed` and `returned` report its outcome and return the delay
    before the next attempt, or None.
    """

    operation = "retry"

    __slots__ = (
        "_confidence_before",
        "_mark",
        "_outer",
        "_policy",
        "_repeatable",
        "_slot",
        "_span",
        "_within",
        "attempt",
    )

    def __init__(self, policy: Policy, subject: Subject) -> None:
        super().__init__(subject)
        self._policy = policy
        self._outer = attempt_context.current()
        self._within = attempt_context.waiting(self.tag)
        self._slot: attempt_context.Slot | None = None
        self._mark: Mark | None = None
        self._span: OwnSpan | None = None
        self._repeatable: Repeatable = {}
        self.attempt = 0
        # Belongs to earlier work; attempts are judged by the confidence they set themselves.
        noted = self._noted()
        self._confidence_before = noted.notes.get("confidence") if noted is not None else None

    def begin(self) -> None:
        """Start an attempt."""
        self.attempt += 1
        if not self.records:
            return
        execution, tag = self.execution, self.tag
        with guard.Guard("retry"):
            self._slot = attempt_context.Slot(
                tag,
                attempt=self.attempt,
                last=tag is not None and self.attempt == self._policy.attempts > 1,
                execution=execution if tag is None else None,
                within=self._within,
                state=self.state,
                repeatable=self._repeatable,
            )
            if tag is None and execution is not None:
                if self._outer is None or not self._outer.numbers(execution):
                    execution.attempt = self.attempt
                self._span = self.start_attempt(self.attempt)
            if (noted := self._noted()) is not None:
                noted.notes.pop("confidence", None)
            self._mark = enter(self._slot, self._span)

    def limit(self, deadline: asyncio.Timeout) -> None:
        """Note the deadline of the attempt."""
        if self._slot is not None and self._policy.timeout is not None:
            self._slot.deadline = deadline, self._policy.timeout

    def failed(self, error: BaseException) -> float | None:
        """Handle an exception; return the delay before a retry, or None to raise it."""
        if self._slot is not None and self._slot.deadline is not None:
            with guard.Guard("retry"):
                self._mark_late(self._slot, error)
        verdict = self._policy.after_error(error, self.attempt)
        self._end(verdict, error, error)
        return verdict.delay

    def returned(self, result: object) -> float | None:
        """Handle a result; return the delay before a retry, or None to return it."""
        verdict = self._policy.after_result(self._confidence(result), self.attempt)
        self._end(verdict, None, result)
        return verdict.delay if verdict is not None else None

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        if self.execution is None:
            return
        with guard.Guard("retry"):
            noted = self._noted()
            if noted is not None and self._confidence_before is not None:
                noted.notes.setdefault("confidence", self._confidence_before)
            self.close(error)

    def _mark_late(self, slot: attempt_context.Slot, error: BaseException) -> None:
        """Note the time limit on the TimeoutError that asyncio made of a cancellation."""
        limit, inside = slot.limit_passed, slot.execution
        if limit is None or not isinstance(error, TimeoutError):
            return
        error_details.mark_limit(error, limit)
        if self.tag is not None and inside is not None and inside.parent is not None:
            origin = error_details.Origin(inside.execution_id, None, inside.parent.span_id)
            error_details.mark_origin(error, origin)

    def _end(self, verdict: Verdict | None, error: BaseException | None, outcome: object) -> None:
        if verdict is None and self._mark is None:
            return
        with guard.Guard("retry"):
            mark, self._mark = self._mark, None
            if mark is not None:
                leave(mark)
            slot, end_ns = self._slot, time.time_ns()
            again = verdict is not None and verdict.delay is not None
            cost = 0.0
            if slot is not None:
                self.follow(slot)
                cost, wasted = slot.settle(failed=again or error is not None)
                self.waste("attempt", wasted)
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
                self.end_attempt(self.attempt, described, _outcome(verdict, error))
            if verdict is not None and verdict.exhausted:
                self._give_up(outcome)

    def _announce(
        self, verdict: Verdict, delay: float, now_ns: int, cost: float, span: dict[str, Any]
    ) -> None:
        event = retry_event(
            agent=self.agent,
            attempt=self.attempt,
            error=verdict.error,
            reason=verdict.reason,
            strategy=values.label(self._policy.strategy.name) or "",
            delay=delay,
            now_ns=now_ns,
        )
        if self.execution is not None and self.tag is None:
            count_retry(self.execution)
        event["max_attempts"] = self._policy.attempts
        if self._policy.timeout is not None:
            event["timeout_seconds"] = self._policy.timeout
        if cost > 0.0:
            event["wasted_cost_usd"] = cost
        event.update(span)
        self.emit(event)

    def _give_up(self, outcome: object) -> None:
        if self._outer is not None:
            self._outer.exhausted = outcome
        execution = self.execution
        if execution is not None and self._policy.attempts > 1:
            execution.max_retries_reached = execution.agent.max_retries_reached = True

    def _confidence(self, result: object) -> float | None:
        if self._policy.min_confidence is None:
            return None
        if (of := self._policy.confidence_of) is not None:
            return values.real(asked("confidence_of", of, result))
        noted = self._slot.execution if self._slot is not None else None
        known = noted.agent.notes.get("confidence") if noted is not None else None
        return known if known is not None else self.confidence_in(result)

    def _noted(self) -> Execution | None:
        """Return the surrounding agent if attempts are judged by its confidence."""
        policy = self._policy
        if policy.min_confidence is None or policy.confidence_of is not None or self.tag:
            return None
        return self.execution.agent if self.execution is not None else None


def _outcome(verdict: Verdict | None, error: BaseException | None) -> dict[str, Any]:
    """Return the outcome fields of the last attempt's event."""
    status, text = outcome_of(error)
    if error is not None:
        return error_fields(error) if text is not None else {"status": status}
    if verdict is None:
        return {}
    # The result was returned although refused: no attempts were left.
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
    """Return the event of a failed attempt that is followed by another."""
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
    """Count a retry in an execution and its agent, for their closing events."""
    with lock:
        execution.retry_count += 1
        if (agent := execution.agent) is not execution:
            agent.retry_count += 1
