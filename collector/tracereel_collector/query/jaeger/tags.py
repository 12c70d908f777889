"""Conditions on the tags of a span, as SQL with bound names and values, one for each tag.

Attributes of our own spans are made of events, which costs more than to look whether an event has the
value in it at all: that comes first.
"""

import re
from collections.abc import Mapping
from typing import Final

from tracereel import semconv

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.: -]+")
"""Values that JSON writes as they are."""
# What Jaeger calls a tag and we keep in a column: true where the value is that of the column.
_OF_ALL: Final = {
    "error": "({value} = 'true' AND StatusCode = 'Error')",
    "span.kind": "{value} = lower(SpanKind)",
    "otel.status_code": "{value} = upper(StatusCode)",
    "otel.status_description": "{value} = StatusMessage",
}
_OF_SPANS: Final = {
    **_OF_ALL,
    "otel.scope.name": "{value} = ScopeName",
    "otel.library.name": "{value} = ScopeName",
    "otel.scope.version": "{value} = ScopeVersion",
    "otel.library.version": "{value} = ScopeVersion",
    "w3c.tracestate": "{value} = TraceState",
}
_OF_EVENTS: Final = {**_OF_ALL, "service.name": "{value} = ServiceName"}


def span_tags(tags: Mapping[str, str]) -> str:
    """What must hold of a row of `whole_spans`; its resource and its events count as well."""
    held = []
    for number, (key, value) in enumerate(tags.items()):
        inside = _entry("m", number, value)
        ways = [
            _entry("SpanAttributes", number, value),
            _entry("ResourceAttributes", number, value),
            f"arrayExists(m -> {inside}, `Events.Attributes`)",
        ]
        held.append(_any(ways, _OF_SPANS.get(key), number))
        if _is_written(key, value):
            held.append(f"(Told = '' OR {_in_event(number)})")
    return " AND ".join(held) or "1"


def event_tags(tags: Mapping[str, str]) -> str:
    """What must hold of a row of `untold_spans`."""
    held = []
    for number, (key, value) in enumerate(tags.items()):
        held.append(_any([_entry("SpanAttributes", number, value)], _OF_EVENTS.get(key), number))
        if _is_written(key, value):
            held.append(_in_event(number))
    return " AND ".join(held) or "1"


def tag_parameters(tags: Mapping[str, str]) -> dict[str, str]:
    """The names and values that both speak of."""
    keys = {f"tag_{number}": key for number, key in enumerate(tags)}
    return keys | {f"value_{number}": value for number, value in enumerate(tags.values())}


def _is_written(key: str, value: str) -> bool:
    """Whether an event with such an attribute has the value in it, letter for letter."""
    derived = key in _OF_SPANS or key in _OF_EVENTS or key == semconv.OPERATION
    return not derived and _PLAIN.fullmatch(value) is not None


def _in_event(number: int) -> str:
    return f"position(Told, {{value_{number}:String}}) > 0"


def _entry(attributes: str, number: int, value: str) -> str:
    held = f"{attributes}[{{tag_{number}:String}}] = {{value_{number}:String}}"
    # An entry that is not there reads as an empty one.
    return held if value else f"(mapContains({attributes}, {{tag_{number}:String}}) AND {held})"


def _any(ways: list[str], column: str | None, number: int) -> str:
    named = [column.format(value=f"{{value_{number}:String}}")] if column is not None else []
    return f"({' OR '.join([*named, *ways])})"
