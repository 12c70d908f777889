"""JSON Schema of the event contract, generated from its models."""

from typing import Any, Final

from pydantic.json_schema import models_json_schema

from tracereel.event_envelope import EVENT_VERSION, Envelope
from tracereel.events import EVENT_MODELS, CustomEvent

_NEVER_BY_US: Final = "Null only from other senders: the SDK always sets it."
NULL_IF: Final[dict[str, str]] = {
    "agent_name": "a pipeline decided outside of its agents",
    "agent_version": "no version was given and the function is in no installed package",
    "parent_trace_id": "the run has no parent",
    "llm_provider": "the program did not name one for the agent",
    "llm_model": "the program did not name one for the agent",
    "temperature": "the program did not name one for the agent",
    "max_tokens": "the program did not name one for the agent",
    "confidence": "neither the program, the result nor the last decision has one",
    "decision_type": "neither the program, the result nor a decision has one",
    "reasoning": "neither the program, the result nor the decision has one, or content is off",
    "llm_tokens_used": "no model call reported tokens",
    "llm_prompt_tokens": "no model call reported tokens",
    "llm_completion_tokens": "no model call reported tokens",
    "llm_cost_usd": "no call reported a cost; the collector calculates it from the tokens",
    "input_at_error": "content is off",
    "partial_output": "there is none, or content is off",
    "stack_trace": "there is none, or content is off",
    "fallback_successful": "there is no fallback, or it runs after the event was written",
    "decision_category": "the program did not name one",
    "input_data": "none was given and the call around has no arguments, or content is off",
    "output_data": "the program did not give one, or content is off",
    "cache_hit_key": "the decision was not cached, or content is off",
    "retry_successful": "the attempt that it announces has not been made yet",
    "fallback_output_summary": "the fallback failed, or content is off",
    "fallback_confidence": "the fallback failed, or its confidence is not known",
    "quality_delta": "the confidence of one of the two is not known",
    "agent_sequence": "the plan was not declared; the completed event has the agents that ran",
    "sequence_length": "the plan was not declared; the completed event has the agents that ran",
    "user_prompt": "no argument was a text, or content is off",
    "user_timezone": "no argument has one, and the zone of the process has no name",
    "user_id": "the program did not give one",
    "final_outcome": "neither the program nor the result has one",
    "output_summary": "the pipeline did not return, or content is off",
    "input": "content is off",
    "output": "there is none, or content is off",
    "final_confidence": "neither the program, the result nor the last decision has one",
}
"""Fields of the contract's eight types that may be null, and when."""
_CONTRACT: Final = EVENT_MODELS[:8]
FILLED_BY_US: Final = {
    "AgentExecutionFailed": ("error_code", "error_category", "stage"),
    "AgentDecisionRecorded": ("decision_duration_ms",),
}
"""Nullable fields of the contract's types that the SDK always sets."""


def json_schema() -> dict[str, Any]:
    """Return the contract as one JSON Schema document (`docs/events.schema.json`)."""
    models: tuple[type[Envelope], ...] = (*EVENT_MODELS, CustomEvent)
    refs, schema = models_json_schema([(model, "validation") for model in models])
    for definition in schema["$defs"].values():
        # The default of `event_type` is for Python only; on the wire the field is required.
        definition["required"] = ["event_type", *definition["required"]]
        definition["properties"]["event_type"].pop("default", None)
        for field in definition["properties"].values():
            field.pop("title", None)
    for model in _CONTRACT:
        for name, field in schema["$defs"][model.__name__]["properties"].items():
            if {"type": "null"} in field.get("anyOf", ()):
                if name in NULL_IF:
                    field["description"] = f"Null if {NULL_IF[name]}."
                elif name in FILLED_BY_US.get(model.__name__, ()):
                    field["description"] = _NEVER_BY_US
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tracereel events {EVENT_VERSION}",
        "description": "One event. Generated from sdk/tracereel/events.py; do not edit.",
        "anyOf": [refs[model, "validation"] for model in models],
        "$defs": schema["$defs"],
    }
