"""One call with its fallbacks: when they take over, and the event each of them leaves.

The sync and the async wrapper make the calls; everything else of a fallback is here, for both.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from tracereel import _guard, _values, semconv
from tracereel.resilience import _slots
from tracereel.resilience._functions import (
    Classes,
    Function,
    Subject,
    agent_of,
    asked,
    error_text,
    name_of,
)
from tracereel.resilience._place import Mark, Place, enter, leave
from tracereel.resilience._policy import ERROR, LOW_CONFIDENCE, NEVER, ConfidenceOf

EXHAUSTED: Final = "max_retries_exceeded"
_CONFIDENCE: Final = "confidence"


@dataclass(frozen=True, slots=True)
class Plan:
    """What `fallback` was given."""

    targets: tuple[Function, ...]
    on: Classes
    when: Callable[[Any], bool] | None
    min_confidence: float | None
    confidence_of: ConfidenceOf | None
    quality_delta_of: Callable[[Any, Any], float | None] | None
    reason: str | None

    def covers(self, error: BaseException) -> bool:
        """Whether fallbacks are for an exception."""
        return isinstance(error, self.on) and not isinstance(error, NEVER)

    def objection(self, result: object, confidence: float | None) -> str | None:
        """Why a result is not good enough; null where it is."""
        least = self.min_confidence
        if least is not None and confidence is not None and confidence < least:
            return f"LowConfidence: {confidence:g} is below {least:g}"
        if self.when is not None and asked("when", self.when, result):
            return "the result was not accepted"
        return None


class Takeover(AbstractContextManager["Takeover", None]):
    """A call of a primary with fallbacks: `begin` each function, then say how it went."""

    __slots__ = (
        "_error",
        "_mark",
        "_place",
        "_plan",
        "_primary",
        "_primary_confidence",
        "_primary_result",
        "_reason",
        "_set_aside",
        "_slot",
        "_target",
        "_wasted",
        "failure",
    )

    def __init__(self, plan: Plan, subject: Subject) -> None:
        self._plan = plan
        self._place = Place("fallback", subject)
        self._slot: _slots.Slot | None = None
        self._primary: _slots.Slot | None = None
        """That of a primary whose result may yet be replaced."""
        self._mark: Mark | None = None
        self._target: Function | None = None
        self._reason = ERROR
        self._error = ""
        self._primary_result: Any = None
        self._set_aside: Any = None
        self._primary_confidence: float | None = None
        self._wasted = 0.0
        """Cost of routes given up that no event has told yet."""
        self.failure: BaseException | None = None
        """With what the primary failed; null where it returned something that was not good."""

    def begin(self, target: Function | None = None) -> None:
        """The primary starts, or a fallback of it."""
        self._target = target
        place = self._place
        if not place.records:
            return
        with _guard.Guard("fallback"):
            if target is None:
                tag, planned = place.tag, True
            else:
                tag, planned = agent_of(target), False
                if place.around is not None:
                    # Of the primary, or of what went before: not of what takes over.
                    self._set_aside = place.around.agent.notes.pop(_CONFIDENCE, None)
            if tag is None:
                self._slot = _slots.Slot(None, execution=place.around, state=place.state)
            else:
                within = _slots.waiting(tag)
                self._slot = _slots.Slot(
                    tag, fallback_attempted=planned, within=within, state=place.state
                )
            self._mark = enter(self._slot, None)

    def primary_failed(self, error: BaseException) -> bool:
        """The primary has raised; whether fallbacks are for that."""
        self._leave()
        if not self._plan.covers(error):
            self._settle(self._slot)
            return False
        self._settle(self._slot, abandoned=True)
        self.failure = error
        self._trigger(error, ERROR, error_text(error))
        return True

    def primary_returned(self, result: object) -> bool:
        """The primary has returned; whether fallbacks are wanted nevertheless."""
        self._leave()
        text = self._plan.objection(result, self._confidence(result))
        if text is None:
            self._settle(self._slot)
            return False
        self._primary, self._primary_result = self._slot, result
        self._trigger(result, LOW_CONFIDENCE, text)
        return True

    def fallback_failed(self, error: BaseException) -> bool:
        """A fallback has raised; whether the next one is called."""
        self._leave()
        self._settle(self._slot, abandoned=True)
        text = error_text(error)
        self._emit(successful=False, extra={"fallback_error": text})
        if isinstance(error, NEVER):
            return False
        add_note(self.failure, self._target, text)
        return True

    def fallback_returned(self, result: object) -> None:
        """A fallback has returned."""
        confidence: float | None = None
        with _guard.Guard("fallback"):
            confidence = _values.ratio(self._confidence(result))
        self._leave()
        self._settle(self._slot)
        primary, self._primary = self._primary, None
        self._settle(primary, abandoned=True)
        with _guard.Guard("fallback"):
            plan, around = self._plan, self._place.around
            if around is not None:
                around.fallback_used = around.agent.fallback_used = True
                if self._place.tag is None and confidence is not None:
                    # What the agent around returns is this result.
                    around.agent.notes.setdefault(_CONFIDENCE, confidence)
            delta: float | None = None
            if plan.quality_delta_of is not None:
                given = asked(
                    "quality_delta_of", plan.quality_delta_of, self._primary_result, result
                )
                delta = _values.real(given)
            elif confidence is not None and self._primary_confidence is not None:
                # Confidences have few digits; their difference should too.
                delta = round(confidence - self._primary_confidence, 9)
            summary = _values.summary(result) if self._place.captures else None
            extra = {
                "fallback_output_summary": summary,
                "fallback_confidence": confidence,
                "quality_delta": delta,
            }
            self._emit(successful=True, extra=extra)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._settle(self._primary)
        self._place.close(error)
        # Both hold the frame of the caller, and so this, by a traceback.
        self.failure = self._slot = self._primary = None

    def _settle(self, slot: _slots.Slot | None, *, abandoned: bool = False) -> None:
        """A route is over; given up, what it cost was for nothing."""
        if slot is not None:
            with _guard.Guard("fallback"):
                cost, wasted = slot.settle(abandoned=abandoned)
                self._place.waste("route", wasted)
                self._wasted += cost

    def _leave(self) -> None:
        if self._mark is None:
            return
        with _guard.Guard("fallback"):
            mark, self._mark = self._mark, None
            if mark is not None:
                leave(mark)
            if self._slot is not None and self._target is None:
                self._place.follow(self._slot)
            around, before = self._place.around, self._set_aside
            if around is not None and before is not None and self._place.tag is not None:
                # The primary had an execution of its own, so this was not the primary's.
                around.agent.notes.setdefault(_CONFIDENCE, before)

    def _trigger(self, outcome: object, reason: str, text: str) -> None:
        slot, plan = self._slot, self._plan
        if slot is not None and slot.exhausted is outcome:
            reason = EXHAUSTED
        self._reason = plan.reason or reason
        self._error = text
        with _guard.Guard("fallback"):
            self._primary_confidence = self._confidence(self._primary_result)
            if self._place.tag is None and self._place.around is not None:
                around = self._place.around
                around.fallback_attempted = around.agent.fallback_attempted = True

    def _confidence(self, result: object) -> float | None:
        """Of what has just ended: from its result, or from what its execution was told."""
        of = self._plan.confidence_of
        if of is not None:
            return _values.real(asked("confidence_of", of, result)) if result is not None else None
        execution = self._slot.execution if self._slot is not None else None
        return execution.agent.notes.get(_CONFIDENCE) if execution is not None else None

    def _emit(self, *, successful: bool, extra: dict[str, Any]) -> None:
        target = self._target
        with _guard.Guard("fallback"):
            place = self._place
            event: dict[str, Any] = {
                "event_type": semconv.FALLBACK_TRIGGERED,
                "primary_agent": place.agent,
                "fallback_agent": name_of(target),
                "trigger_reason": self._reason,
                "primary_error": self._error,
                "fallback_successful": successful,
                "fallback_output_summary": None,
                "fallback_confidence": None,
                "quality_delta": None,
                **extra,
            }
            if self._wasted > 0.0:
                event["wasted_cost_usd"], self._wasted = self._wasted, 0.0
            place.emit(event)


def add_note(failure: BaseException | None, target: Function | None, text: str) -> None:
    """Say on the primary's exception that a fallback has failed too."""
    if failure is not None and target is not None:
        note = f"tracereel: the fallback {name_of(target)} failed too: {text}"
        asked("add_note of an exception", BaseException.add_note, failure, note)
