"""One call with its fallbacks: when they run, and the event of each.

The sync and async wrappers only make the calls; they share this logic.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tracereel import semconv
from tracereel._core import attempt_context
from tracereel._core.run_state import Ended
from tracereel._redact import values
from tracereel._runtime import guard
from tracereel.resilience.policy import ERROR, LOW_CONFIDENCE, NEVER, ConfidenceOf
from tracereel.resilience.retry_scope import Mark, RetryScope, enter, leave
from tracereel.resilience.wrapped_functions import (
    Classes,
    Function,
    Subject,
    agent_of,
    asked,
    error_text,
    name_of,
)

EXHAUSTED: Final = "max_retries_exceeded"
_CONFIDENCE: Final = "confidence"


@dataclass(frozen=True, slots=True)
class FallbackPlan:
    """Options of `fallback`."""

    targets: tuple[Function, ...]
    on: Classes
    when: Callable[[Any], bool] | None
    min_confidence: float | None
    confidence_of: ConfidenceOf | None
    quality_delta_of: Callable[[Any, Any], float | None] | None
    reason: str | None

    def covers(self, error: BaseException) -> bool:
        """Return whether fallbacks handle an exception."""
        return isinstance(error, self.on) and not isinstance(error, NEVER)

    def objection(self, result: object, confidence: float | None) -> str | None:
        """Return why a result is not good enough, or None if it is."""
        least = self.min_confidence
        if least is not None and confidence is not None and confidence < least:
            return f"LowConfidence: {confidence:g} is below {least:g}"
        if self.when is not None and asked("when", self.when, result):
            return "the result was not accepted"
        return None


class FallbackScope(RetryScope):
    """One call of a primary with fallbacks.

    `begin` starts each function; `failed` and `returned` report its outcome and return whether
    another function follows.
    """

    operation = "fallback"

    __slots__ = (
        "_error",
        "_lost",
        "_mark",
        "_plan",
        "_primary",
        "_primary_confidence",
        "_reason",
        "_set_aside",
        "_slot",
        "_target",
        "_wasted",
        "failure",
        "primary_result",
    )

    def __init__(self, plan: FallbackPlan, subject: Subject) -> None:
        super().__init__(subject)
        self._plan = plan
        self._slot: attempt_context.Slot | None = None
        self._primary: attempt_context.Slot | None = None
        """Slot of a primary whose result may still be replaced."""
        self._lost: list[Ended] = []
        """Failed executions of the primary."""
        self._mark: Mark | None = None
        self._target: Function | None = None
        self._reason = ERROR
        self._error = ""
        self._set_aside: Any = None
        self._primary_confidence: float | None = None
        self._wasted = 0.0
        """Cost of abandoned routes that no event has reported yet."""
        self.primary_result: Any = None
        """Result of the primary that was not good enough."""
        self.failure: BaseException | None = None
        """Exception of the primary; None if it returned a result."""

    def begin(self, target: Function | None) -> None:
        """Start a fallback, or the primary (None)."""
        self._target = target
        if not self.records:
            return
        with guard.Guard("fallback"):
            tag = self.tag
            if target is not None:
                tag = agent_of(target)
                if self.around is not None:
                    # Set by the primary or earlier work, not by the fallback.
                    self._set_aside = self.around.agent.notes.pop(_CONFIDENCE, None)
            if tag is None:
                self._slot = attempt_context.Slot(None, execution=self.around, state=self.state)
            else:
                self._slot = attempt_context.Slot(
                    tag,
                    fallback_attempted=target is None,
                    within=attempt_context.waiting(tag),
                    state=self.state,
                )
            self._mark = enter(self._slot, None)

    def failed(self, error: BaseException) -> bool:
        """Handle an exception; return whether another function follows."""
        self._leave()
        if self._target is None:
            covered = self._plan.covers(error)
            self._settle(self._slot, abandoned=covered)
            if covered:
                self.failure = error
                self._lose(self._slot)
                self._trigger(error, ERROR, error_text(error))
            return covered
        self._settle(self._slot, abandoned=True)
        text = error_text(error)
        self._emit(successful=False, extra={"fallback_error": text})
        if isinstance(error, NEVER):
            return False
        add_note(self.failure, self._target, text)
        return True

    def returned(self, result: object) -> bool:
        """Handle a result; return whether another function follows."""
        if self._target is not None:
            if self.records:
                self._fallback_returned(result)
            return False
        self._leave()
        text = self._plan.objection(result, self._confidence(result))
        if text is None:
            self._settle(self._slot)
            return False
        self._primary, self.primary_result = self._slot, result
        self._trigger(result, LOW_CONFIDENCE, text)
        return True

    def _fallback_returned(self, result: object) -> None:
        confidence: float | None = None
        with guard.Guard("fallback"):
            confidence = values.ratio(self._confidence(result))
        self._leave()
        self._settle(self._slot)
        primary, self._primary = self._primary, None
        self._settle(primary, abandoned=True)
        with guard.Guard("fallback"):
            for lost in self._lost:
                if lost.tally is not None:
                    lost.tally.replace(lost)
            plan, around, recorder = self._plan, self.around, self._recorder
            if around is not None:
                around.fallback_used = around.agent.fallback_used = True
                if self.tag is None and confidence is not None:
                    # The surrounding agent returns this result.
                    around.agent.notes.setdefault(_CONFIDENCE, confidence)
            delta: float | None = None
            if (of := plan.quality_delta_of) is not None:
                delta = values.real(asked("quality_delta_of", of, self.primary_result, result))
            elif confidence is not None and self._primary_confidence is not None:
                # Hide floating-point noise.
                delta = round(confidence - self._primary_confidence, 9)
            captures = recorder is not None and recorder.config.capture_content
            extra = {
                "fallback_output_summary": values.summary(result) if captures else None,
                "fallback_confidence": confidence,
                "quality_delta": delta,
            }
            self._emit(successful=True, extra=extra)

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        self._settle(self._primary)
        self.close(error)
        # Break reference cycles: both hold the caller's frame by a traceback.
        self.failure = self._slot = self._primary = None

    def _lose(self, slot: attempt_context.Slot | None) -> None:
        """Remember the executions that the fallback replaces if it succeeds."""
        if slot is not None:
            self._lost = [
                each
                for each in slot.ended
                if each.agent_name == self.agent
                and each.status == semconv.FAILED
                and each.fallback_attempted
                and not each.repeated
                and not each.replaced
            ]

    def _settle(self, slot: attempt_context.Slot | None, *, abandoned: bool = False) -> None:
        """Settle a route; count its cost as waste if it was abandoned."""
        if slot is not None:
            with guard.Guard("fallback"):
                cost, wasted = slot.settle(abandoned=abandoned)
                self.waste("route", wasted)
                self._wasted += cost

    def _leave(self) -> None:
        if self._mark is None:
            return
        with guard.Guard("fallback"):
            mark, self._mark = self._mark, None
            if mark is not None:
                leave(mark)
            if self._slot is not None and self._target is None:
                self.follow(self._slot)
            around, before = self.around, self._set_aside
            if around is not None and before is not None and self.tag is not None:
                # The primary had its own execution, so this confidence is not the primary's.
                around.agent.notes.setdefault(_CONFIDENCE, before)

    def _trigger(self, outcome: object, reason: str, text: str) -> None:
        if not self.records:
            return
        slot, plan = self._slot, self._plan
        if slot is not None and slot.exhausted is outcome:
            reason = EXHAUSTED
        self._reason = plan.reason or reason
        self._error = text
        with guard.Guard("fallback"):
            self._primary_confidence = self._confidence(self.primary_result)
            around = self.around
            if self.tag is None and around is not None:
                around.fallback_attempted = around.agent.fallback_attempted = True

    def _confidence(self, result: object) -> float | None:
        """Return the confidence of the last call, from its result or its execution."""
        of = self._plan.confidence_of
        if of is not None:
            return values.real(asked("confidence_of", of, result)) if result is not None else None
        execution = self._slot.execution if self._slot is not None else None
        known = execution.agent.notes.get(_CONFIDENCE) if execution is not None else None
        return known if known is not None else self.confidence_in(result)

    def _emit(self, *, successful: bool, extra: dict[str, Any]) -> None:
        with guard.Guard("fallback"):
            event: dict[str, Any] = {
                "event_type": semconv.FALLBACK_TRIGGERED,
                "primary_agent": self.agent,
                "fallback_agent": name_of(self._target),
                "trigger_reason": self._reason,
                "primary_error": self._error,
                "fallback_successful": successful,
                "fallback_output_summary": None,
                "fallback_confidence": None,
                "quality_delta": None,
                **extra,
            }
            if self.tag is None and self.around is not None:
                self.around.agent.fallback_successful = successful
            if self._wasted > 0.0:
                event["wasted_cost_usd"], self._wasted = self._wasted, 0.0
            self.emit(event)


def add_note(failure: BaseException | None, target: Function | None, text: str) -> None:
    """Note on the primary's exception that a fallback has failed too."""
    if failure is not None and target is not None:
        note = f"tracereel: the fallback {name_of(target)} failed too: {text}"
        asked("add_note of an exception", BaseException.add_note, failure, note)
