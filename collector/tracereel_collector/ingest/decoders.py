"""Typed decoders for events, generated from the contract's JSON Schema so that there is one definition."""

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
    """A strict decoder for each event type: raises `msgspec.ValidationError` naming the field."""

    def __init__(self) -> None:
        self._by_type: dict[str, msgspec.json.Decoder[Any]] = {}
        for name, definition in event_definitions():
            decoder = msgspec.json.Decoder(_struct(name, definition))
            event_type = definition["properties"]["event_type"]
            self._by_type[event_type.get("const", CUSTOM_PREFIX)] = decoder

    def of(self, event_type: object) -> "msgspec.json.Decoder[Any]":
        """The decoder of an event type.

        Raises:
            UnknownEventTypeError: the type is not in the contract and not a `custom.` one.
        """
        if isinstance(event_type, str):
            found = self._by_type.get(event_type)
            if found is None and event_type.startswith(CUSTOM_PREFIX):
                found = self._by_type[CUSTOM_PREFIX]
            if found is not None:
                return found
        raise UnknownEventTypeError(event_type)


@cache
def event_definitions() -> ItemsView[str, dict[str, Any]]:
    """The events of the contract by the names of their models; made once, it takes a while."""
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
    """What msgspec calls a schema; a pattern can be left out and handed to who will see to it."""
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
        # `$` in Python also matches before a final newline; the contract means the very end.
        limits["pattern"] = re.sub(r"\$$", r"\\Z", schema["pattern"])
    return Annotated[_PLAIN[kind], msgspec.Meta(**limits)] if limits else _PLAIN[kind]
