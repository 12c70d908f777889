"""SQL that derives spans from tracereel's events, so that they are not stored twice.

An event that closes a span contains all of it. Its attributes and canonical columns are calculated at
read time, which is rare; at insert time they cost more than everything else together.
"""

from typing import Final

from tracereel import semconv
from tracereel_collector.store.dialects import own
from tracereel_collector.store.dialects.columns import (
    COLUMNS,
    first,
    kind_of,
    provider_of,
    translation,
)
from tracereel_collector.store.dialects.names import SLOTS
from tracereel_collector.store.template import rendered

_KNOWN: Final = {**semconv.SPAN_ATTRIBUTES, **own.MORE_ATTRIBUTES}
_IS_CALL: Final = f"event_type = '{semconv.LLM_CALLED}'"
_CLOSES: Final = "span_id != '' AND span_began > 0 AND span_name != ''"
_BASE: Final = (
    *("Timestamp", "TraceId", "SpanId", "ParentSpanId", "TraceState", "SpanName", "SpanKind"),
    *(
        "ServiceName",
        "ResourceAttributes",
        "ScopeName",
        "ScopeVersion",
        "SpanAttributes",
        "Duration",
    ),
    *("StatusCode", "StatusMessage", "Events.Timestamp", "Events.Name", "Events.Attributes"),
    *("Links.TraceId", "Links.SpanId", "Links.TraceState", "Links.Attributes"),
    *("TenantId", "SequenceNumber", "Position", "IngestedAt", "Source"),
)
SPAN_COLUMNS: Final = ", ".join(f"`{name}`" for name in (*_BASE, *COLUMNS, "AttributeTypes"))
"""Columns of `otel_spans`, in table order."""
_TYPED: Final = ", ".join(
    (
        *(f"`{name}`" for name in _BASE),
        # Cast to the table's types, as an insert would do.
        *(f"CAST({name} AS {kind}) AS {name}" for name, (kind, _, _) in COLUMNS.items()),
        "AttributeTypes",
    )
)


def _sources() -> dict[str, list[tuple[str, str]]]:
    """Return for each attribute its fields and the SQL of their values."""
    found: dict[str, list[tuple[str, str]]] = {}
    for field, names in _KNOWN.items():
        for place, name in enumerate(names):
            said = f"t.{field}"
            if field == "llm_model" and place == 0:
                # For a model call, the model that responded is distinguished from the requested one.
                found.setdefault(semconv.ANSWERED_BY, []).append(
                    (field, f"if({_IS_CALL}, {said}, '')")
                )
                said = f"if({_IS_CALL}, '', {said})"
            found.setdefault(name, []).append((field, said))
    found.setdefault(semconv.OPERATION, []).append(("operation", own.OPERATION_OF_TYPE))
    return found


_SOURCES: Final = _sources()
_SAID: Final = {
    f"said_{slot}": first(*(sql for name in names for _, sql in _SOURCES.get(name, [])))
    for slot, names in SLOTS.items()
}
_FIELDS: Final = sorted(
    {field for names in SLOTS.values() for name in names for field, _ in _SOURCES.get(name, [])}
)


_CLOSED_SPANS: Final = rendered(
    "closed_spans.sql",
    attributes=own.FRAGMENTS["own_attributes"],
    attribute_pairs=own.FRAGMENTS["own_attribute_pairs"],
    fields=own.FRAGMENTS["event_fields"],
    types=", ".join(f"{name} String" for name in (*_FIELDS, "error_message", "stack_trace")),
    said=",\n        ".join(f"{sql} AS {name}" for name, sql in _SAID.items()),
    closes=_CLOSES,
)
"""Complete spans of `agent_events`, as rows of `otel_spans`."""

FRAGMENTS: Final = {
    "span_columns": SPAN_COLUMNS,
    "told_span_columns": _TYPED,
    "told_spans_query": translation(_CLOSED_SPANS, said=True),
    # Planned in every insert: a short form of the columns above for model calls.
    "told_closes": _CLOSES,
    "told_provider": provider_of("llm_provider"),
    "told_kind": kind_of("lower(JSONExtractString(payload, 'operation'))"),
}
"""Values of `$name` in the `.sql` files."""
