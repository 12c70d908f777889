"""Tag conditions on spans, as SQL with bound names and values.

Attributes of own spans are built from events, which is expensive. So a cheap text search in the event
comes first.
"""

import re
from collections.abc import Mapping
from typing import Final

from tracereel import semconv

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.: -]+")
"""Values that JSON does not escape."""
# Jaeger tags that are stored in columns.
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
    """Return the condition on rows of `whole_spans`; resource and span events count too."""
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
    """Return the condition on rows of `untold_spans`."""
    held = []
    for number, (key, value) in enumerate(tags.items()):
        held.append(_any([_entry("SpanAttributes", number, value)], _OF_EVENTS.get(key), number))
        if _is_written(key, value):
            held.append(_in_event(number))
    return " AND ".join(held) or "1"


def tag_parameters(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the bound names and values of the conditions."""
    keys = {f"tag_{number}": key for number, key in enumerate(tags)}
    return keys | {f"value_{number}": value for number, value in enumerate(tags.values())}


def _is_written(key: str, value: str) -> bool:
    """Return whether an event with this attribute contains the value verbatim."""
    derived = key in _OF_SPANS or key in _OF_EVENTS or key == semconv.OPERATION
    return not derived and _PLAIN.fullmatch(value) is not None


def _in_event(number: int) -> str:
    return f"position(Told, {{value_{number}:String}}) > 0"


def _entry(attributes: str, number: int, value: str) -> str:
    held = f"{attributes}[{{tag_{number}:String}}] = {{value_{number}:String}}"
    # A missing map entry reads as an empty string.
    return held if value else f"(mapContains({attributes}, {{tag_{number}:String}}) AND {held})"


def _any(ways: list[str], column: str | None, number: int) -> str:
    named = [column.format(value=f"{{value_{number}:String}}")] if column is not None else []
    return f"({' OR '.join([*named, *ways])})"
