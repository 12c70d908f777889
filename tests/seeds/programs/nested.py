"""A pipeline whose agents have spans of their own around and between traced calls."""

import sys
import time

from opentelemetry import trace

import tracereel

tracer = trace.get_tracer(__name__)


@tracereel.traced_tool("calendar")
def free_slots(day: str) -> list[str]:
    with tracer.start_as_current_span("calendar.query"):
        time.sleep(0.002)
    return ["10:00"]


@tracereel.traced_agent("availability_agent")
def find(day: str) -> str:
    with tracer.start_as_current_span("availability.prepare"):
        time.sleep(0.001)
        slot = free_slots(day)[0]
    tracereel.record_decision("slot_choice", confidence=0.9)
    with tracer.start_as_current_span("availability.validation"):
        time.sleep(0.001)
    return slot


@tracereel.traced_pipeline("appointment_creation", trace_id=sys.argv[1])
def book(user_prompt: str) -> str:
    with tracer.start_as_current_span("booking"):
        first = find("Monday")
        second = find("Tuesday")
    return f"{first} {second}"


tracereel.configure(set_tracer_provider=True)
book("Monday or Tuesday")
tracereel.shutdown(20.0)
