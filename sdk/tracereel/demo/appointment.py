"""Demo pipeline: five agents turn a request into an appointment or a reason why not.

This is an example of decorated agent code. Recording needs only the decorators, `record_decision`
and `current_execution().set`. The run begins with the function `create_appointment` of this
module, so that `tracereel replay` can call it again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, Final

import tracereel
from tracereel.demo.script_writer import usual_model
from tracereel.demo.scripted_model import (
    MODEL,
    PROVIDER,
    Completion,
    LLMTimeoutError,
    ScriptedModel,
)
from tracereel.resilience import fallback, fixed_delay, retry

PIPELINE: Final = "appointment_creation"
AGENTS: Final = (
    "parsing_agent",
    "temporal_agent",
    "geo_agent",
    "validation_agent",
    "availability_agent",
)
VERSION: Final = "1.0.0"
USUAL_PLACE: Final = "the usual place"

_LLM: Final[dict[str, Any]] = {
    "version": VERSION,
    "llm_provider": PROVIDER,
    "llm_model": MODEL,
    "temperature": 0.3,
    "max_tokens": 500,
}
_asked_again: Final = retry(attempts=2, on=LLMTimeoutError, strategy=fixed_delay(0.05))
"""Retry policy for model timeouts."""


@dataclass(frozen=True, slots=True)
class AppointmentRequest:
    """Data extracted from the user's request."""

    contact: str
    date: str
    time: str
    place: str | None


@dataclass(frozen=True, slots=True)
class AppointmentTime:
    """Date and time of the appointment."""

    date: str
    time: str
    timezone: str


@dataclass(frozen=True, slots=True)
class Booking:
    """Outcome of a request."""

    outcome: str
    appointment: str | None = None


class AppointmentAssistant:
    """The pipeline and its five agents, which share one model."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model
        self.trace_id: str | None = None
        """Trace id of the latest request."""
        self._confidences: list[float] = []

    def book(self, user_prompt: str) -> Booking:
        """Call the agents in sequence."""
        run = tracereel.current_execution()
        if not run:  # recording is off
            return self._book(user_prompt)
        self.trace_id = run.trace_id
        booking = self._book(user_prompt)
        # A chain of agents is only as confident as its least confident agent.
        run.set(outcome=booking.outcome, confidence=min(self._confidences))
        return booking

    def _book(self, prompt: str) -> Booking:
        request = self.parse(prompt)
        moment = self.resolve_time(request)
        place = self.resolve_place(request)
        if not self.validate(moment):
            return Booking("outside_opening_hours")
        slot = self.find_slot(moment, contact=request.contact)
        if slot is None:
            return Booking("conflict_detected")
        return Booking("appointment_created", f"{slot}, {request.contact}, {place}")

    @tracereel.traced_agent("parsing_agent", **_LLM)
    @_asked_again
    def parse(self, prompt: str) -> AppointmentRequest:
        """Extract contact, date, time and place from the request."""
        answer = self._ask("entity_extraction", prompt)
        tracereel.record_decision(
            "entity_extraction",
            category="extraction",
            reasoning=answer.reasoning,
            confidence=answer.confidence,
            input_data={"prompt": prompt},
            output_data=dict(answer.content),
        )
        return AppointmentRequest(**answer.content)

    @tracereel.traced_agent("temporal_agent", **_LLM)
    def resolve_time(self, request: AppointmentRequest) -> AppointmentTime:
        """Resolve phrases such as 'mañana' to a date."""
        answer = self._ask("temporal_resolution", request.date)
        moment = AppointmentTime(*(answer.content[key] for key in ("date", "time", "timezone")))
        tracereel.record_decision(
            "temporal_resolution",
            category="resolution",
            reasoning=answer.reasoning,
            confidence=answer.confidence,
            input_data={"date": request.date, "time": request.time},
            output_data=asdict(moment),
            candidates=list(answer.content["readings"]),
            chosen=moment.date,
        )
        return moment

    @tracereel.traced_agent("history_agent", version=VERSION)
    def usual_place(self, request: AppointmentRequest) -> str:
        """Return the previous place without a model call."""
        del request
        tracereel.current_execution().set(
            confidence=0.4, reasoning="No place was found: the last visit's is likely enough"
        )
        return USUAL_PLACE

    # A missing place lookup must not prevent a booking.
    @fallback(to=usual_place, on=LLMTimeoutError)
    @tracereel.traced_agent("geo_agent", **_LLM)
    @_asked_again
    def resolve_place(self, request: AppointmentRequest) -> str:
        """Resolve the place."""
        answer = self._ask("place_resolution", request.place or request.contact)
        place: str = answer.content["place"]
        return place

    @tracereel.traced_agent("validation_agent", **_LLM)
    def validate(self, moment: AppointmentTime) -> bool:
        """Check the booking rules."""
        return self._check_rules(moment.date, moment.time) == "accept"

    # A decision function can be forced: `tracereel replay … --choose rule_check=refuse`.
    @tracereel.traced_decision("rule_check", category="validation", candidates=["accept", "refuse"])
    def _check_rules(self, date: str, time: str) -> str:
        answer = self._ask("rule_check", f"{date} {time}")
        chosen = "accept" if answer.content["valid"] else "refuse"
        tracereel.current_decision().set(
            reasoning=answer.reasoning,
            confidence=answer.confidence,
            output_data=dict(answer.content),
            chosen=chosen,
        )
        return chosen

    @tracereel.traced_agent("availability_agent", **_LLM)
    def find_slot(self, moment: AppointmentTime, *, contact: str) -> str | None:
        """Return the requested slot if it is free."""
        answer = self._ask("slot_choice", f"{contact} {moment.date} {moment.time}")
        slot: str | None = answer.content["slot"]
        tracereel.record_decision(
            "slot_choice",
            category="resolution",
            reasoning=answer.reasoning,
            confidence=answer.confidence,
            input_data={"contact": contact, "wanted": f"{moment.date} {moment.time}"},
            output_data={"slot": slot},
            candidates=list(answer.content["offered"]),
            chosen=slot,
        )
        return slot

    def _ask(self, task: str, prompt: str) -> Completion:
        """Call the model and record tokens, cost and confidence on the current execution."""
        execution = tracereel.current_execution()
        if not execution:  # recording is off
            return self._model.complete(task, prompt)
        execution.set(stage="llm_call")
        answer = self._model.complete(task, prompt)
        self._confidences.append(answer.confidence)
        execution.set(
            stage="answer",
            decision_type=task,
            confidence=answer.confidence,
            reasoning=answer.reasoning,
            llm_tokens_used=answer.total_tokens,
            llm_prompt_tokens=answer.prompt_tokens,
            llm_completion_tokens=answer.completion_tokens,
            llm_cost_usd=answer.cost_usd,
            llm_duration_seconds=answer.seconds,
        )
        return answer


_on_duty: ContextVar[AppointmentAssistant | None] = ContextVar("tracereel_demo", default=None)


@contextmanager
def on_duty(assistant: AppointmentAssistant) -> Iterator[None]:
    """Use an assistant for all requests in the block."""
    token = _on_duty.set(assistant)
    try:
        yield
    finally:
        _on_duty.reset(token)


@tracereel.traced_pipeline(PIPELINE, agents=list(AGENTS))
def create_appointment(user_prompt: str, *, user_timezone: str, user_id: str) -> Booking:
    """Book the requested appointment.

    Raises:
        LLMTimeoutError: the model did not respond to an agent that the booking requires.
    """
    del user_timezone, user_id  # recorded with the run
    assistant = _on_duty.get() or AppointmentAssistant(usual_model(user_prompt))
    return assistant.book(user_prompt)
