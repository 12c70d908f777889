"""JSON Schema of the event contract, generated from its models."""

from typing import Any

from pydantic.json_schema import models_json_schema

from tracereel.events import EVENT_MODELS, EVENT_VERSION, CustomEvent, Envelope


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
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tracereel events {EVENT_VERSION}",
        "description": "One event. Generated from sdk/tracereel/events.py; do not edit.",
        "anyOf": [refs[model, "validation"] for model in models],
        "$defs": schema["$defs"],
    }
