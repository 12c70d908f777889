"""Demo pipeline: five agents turn a request into an appointment or a reason why not.

This is an example of decorated agent code. Recording needs only the decorators, `record_decision`
and `current_execution().set`. The run begins with the function `create_appointment` of this
module, so that `tracereel replay` can call it again.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, Final

import tracereel
from tracereel.demo.script_writer import usual_model
from tracereel.demo.scripted_model import (
    MAX_TOKENS,
    MODEL,
    PROVIDER,
    TEMPERATURE,
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
    "temperature": TEMPERATURE,
    "max_tokens": MAX_TOKENS,
}
INSTRUCTIONS: Final = {
    "entity_extraction": "Return contact, date, time and place of the requested appointment as JSON.",
    "temporal_resolution": "Resolve the date phrase in the user's time zone; list other readings.",
    "place_resolution": "Find the place of the appointment.",
    "rule_check": "Check the date and time against the opening hours.",
    "slot_choice": "Choose one of the offered slots, or none if the wanted one is taken.",
}
"""System messages by task."""
_TIME: Final = re.compile(r"[0-2][0-9]:[0-5][0-9]")
_DATE: Final = re.compile(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]")


class InvalidAnswerError(ValueError):
    """The model responded, but the response cannot be used."""

    code = "INVALID_ANSWER"


_asked_again: Final = retry(
    attempts=2, on=(LLMTimeoutError, InvalidAnswerError), strategy=fixed_delay(0.05)
)
"""Retry policy for model timeouts and responses that cannot be used."""


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
        self.trace_id = run.trace_id if run else None
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
        found = answer.content
        self._check(
            answer,
            contact_named=bool(found["contact"]),
            date_given=bool(found["date"]),
            time_readable=_TIME.fullmatch(found["time"] or "") is not None,
        )
        tracereel.record_decision(
            "entity_extraction",
            category="extraction",
            reasoning=answer.reasoning,
            confidence=answer.confidence,
            input_data={"prompt": prompt},
            output_data=dict(found),
        )
        return AppointmentRequest(**found)

    @tracereel.traced_agent("temporal_agent", **_LLM)
    def resolve_time(self, request: AppointmentRequest) -> AppointmentTime:
        """Resolve phrases such as 'mañana' to a date."""
        answer = self._ask("temporal_resolution", request.date)
        self._check(answer, date_readable=_DATE.fullmatch(answer.content["date"]) is not None)
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
    @_asked_again
    def find_slot(self, moment: AppointmentTime, *, contact: str) -> str | None:
        """Return the requested slot if it is free."""
        answer = self._ask("slot_choice", f"{contact} {moment.date} {moment.time}")
        slot: str | None = answer.content["slot"]
        self._check(answer, slot_offered=slot is None or slot in answer.content["offered"])
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
        """Call the model and record its confidence on the current execution."""
        answer = self._model.complete(task, INSTRUCTIONS[task], prompt)
        self._confidences.append(answer.confidence)
        tracereel.current_execution().set(
            decision_type=task, confidence=answer.confidence, reasoning=answer.reasoning
        )
        return answer

    def _check(self, answer: Completion, **passed: bool) -> None:
        """Validate a response, in a step with its own confidence.

        Raises:
            InvalidAnswerError: a check did not pass.
        """
        with tracereel.traced_step(
            "validation", step_type="validation", inputs=answer.content
        ) as step:
            share = sum(passed.values()) / len(passed)
            step.set(confidence=round(answer.confidence * share, 2))
            step.set_output(passed)
            if failed := [name for name, was_passed in passed.items() if not was_passed]:
                step.set(partial_output=dict(answer.content))
                raise InvalidAnswerError(f"the response fails {', '.join(failed)}")


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
        InvalidAnswerError: the model's response cannot be used, also when asked again.
    """
    del user_timezone, user_id  # recorded with the run
    assistant = _on_duty.get() or AppointmentAssistant(usual_model(user_prompt))
    return assistant.book(user_prompt)
