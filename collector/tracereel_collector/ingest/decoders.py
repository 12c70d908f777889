"""Typed decoders of events, generated from the JSON Schema of the contract."""

import re
from collections.abc import Callable, ItemsView
from datetime import datetime
from functools import cache
from typing import Annotated, Any

import msgspec

from tracereel.events import CUSTOM_PREFIX, UnknownEventTypeError
from tracereel.events_schema import json_schema

_PLAIN: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool}
_LIMITS = {
    "minimum": "ge",
    "maximum": "le",
    "minLength": "min_length",
    "maxLength": "max_length",
}


class EventDecoders:
    """Strict decoder of each event type; `msgspec.ValidationError` names the field."""

    def __init__(self) -> None:
        self._by_type: dict[str, msgspec.json.Decoder[Any]] = {}
        for name, definition in event_definitions():
            decoder = msgspec.json.Decoder(_struct(name, definition))
            event_type = definition["properties"]["event_type"]
            self._by_type[event_type.get("const", CUSTOM_PREFIX)] = decoder

    def of(self, event_type: object) -> "msgspec.json.Decoder[Any]":
        """Return the decoder of an event type."""
        if isinstance(event_type, str):
            found = self._by_type.get(event_type)
            if found is None and event_type.startswith(CUSTOM_PREFIX):
                found = self._by_type[CUSTOM_PREFIX]
            if found is not None:
                return found
        raise UnknownEventTypeError(event_type)


@cache
def event_definitions() -> ItemsView[str, dict[str, Any]]:
    """Return the event definitions of the contract by model name; cached, because it is slow."""
    definitions: dict[str, dict[str, Any]] = json_schema()["$defs"]
    return definitions.items()


def _struct(name: str, definition: dict[str, Any]) -> type[msgspec.Struct]:
    required = set(definition["required"])
    fields: list[Any] = [
        (field, type_of(schema)) if field in required else (field, type_of(schema), None)
        for field, schema in definition["properties"].items()
    ]
    return msgspec.defstruct(name, fields, kw_only=True, gc=False)


def type_of(schema: dict[str, Any], *, without_pattern: Callable[[str], None] | None = None) -> Any:
    """Return the msgspec type of a schema.

    Args:
        schema: JSON Schema of a field.
        without_pattern: Receives the pattern, which is then left out of the type.
    """
    if "anyOf" in schema:
        union: Any = None
        for option in schema["anyOf"]:
            kind = type_of(option, without_pattern=without_pattern)
            union = kind if union is None else union | kind
        return union
    kind = schema.get("type")
    if kind == "null":
        return type(None)
    if schema.get("format") == "date-time":
        return datetime
    if kind == "array":
        items = type_of(schema["items"]) if schema.get("items") else Any
        return list[items]  # type: ignore[valid-type]
    if kind == "object":
        return dict[str, Any]
    if kind is None:
        return Any
    limits: dict[str, Any] = {
        ours: schema[theirs] for theirs, ours in _LIMITS.items() if theirs in schema
    }
    if "pattern" in schema and without_pattern is not None:
        without_pattern(schema["pattern"])
    elif "pattern" in schema:
        # `$` in Python also matches before a final newline, in JSON Schema only at the end.
        limits["pattern"] = re.sub(r"\$$", r"\\Z", schema["pattern"])
    return Annotated[_PLAIN[kind], msgspec.Meta(**limits)] if limits else _PLAIN[kind]
