"""Conversion of queued bodies into single records: fields for filters and frames for readers."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracereel_collector.model import SPAN_EVENT, Kind, QueuedBody
from tracereel_collector.store.dialects.names import SLOTS

EVENT, SPAN = "event", "span"
SHOWN: Final = (Kind.EVENTS, Kind.SPANS)
"""Kinds of bodies shown in the live tail."""
_FIELDS: Final = {
    "agent_name": ("agent",),
    "pipeline_type": ("workflow",),
    "session_id": ("session",),
    "user_id": ("user",),
    "llm_model": ("model_served", "model_requested", "model"),
    "llm_provider": ("provider",),
    "tool_name": ("tool",),
    "error_type": ("error",),
}
_FIELD_OF: Final = {
    name: (field, rank)
    for field, slots in _FIELDS.items()
    for rank, name in enumerate(name for slot in slots for name in SLOTS[slot])
}
_KINDS: Final = ("unspecified", "internal", "server", "client", "producer", "consumer")
_STATUS: Final = {1: "success", 2: "failed"}
MAX_TEXT: Final = 500


@dataclass(frozen=True)
class LiveRecord:
    """One event or span; `added` are the fields of the collector, without the opening brace."""

    name: str
    number: int
    fields: dict[str, Any]
    line: bytes
    added: bytes

    @cached_property
    def frame(self) -> bytes:
        """Record as a Server-Sent Event, encoded once for all readers."""
        shown = {"time": self.fields.get("timestamp"), "event": self.fields.get("event_type")}
        head = msgspec.json.encode(
            {name: value if isinstance(value, str) else "" for name, value in shown.items()}
        )
        # Splice instead of re-encoding, so that the record is shown exactly as it was sent.
        details = (self.line.rstrip()[:-1] + b"," + self.added).replace(b"\r", b" ")
        return b'id: %d\nevent: %b\ndata: %b,"details":%b}\n\n' % (
            *(self.number, self.name.encode(), head[:-1], details),
        )


def records_of(body: QueuedBody, *, after: int) -> Iterator[LiveRecord]:
    """Yield the records of a body with a number above `after`, in order."""
    ingested = datetime.fromtimestamp(body.received_unix_nano / 1e9, UTC).isoformat()
    known = {"tenant": body.tenant, "ingested_at": ingested.replace("+00:00", "Z")}
    named = _spans if body.kind is Kind.SPANS else _events
    for number, name, fields, line in named(body, after):
        added = msgspec.json.encode({**known, "sequence_number": number})[1:]
        yield LiveRecord(name, number, fields, line, added)


def _events(body: QueuedBody, after: int) -> Iterator[tuple[int, str, dict[str, Any], bytes]]:
    for number, line in enumerate(_lines(body.data), body.first_sequence_number):
        if number <= after:
            continue
        try:
            fields = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue  # ingest accepts only valid JSON, so this body is damaged
        if isinstance(fields, dict):
            yield number, EVENT, fields, line


def _lines(data: bytes) -> Iterator[bytes]:
    """Yield lines one by one; splitting a large body would hold it in memory twice."""
    begin = 0
    while (end := data.find(b"\n", begin)) >= 0:
        yield data[begin:end]
        begin = end + 1
    yield data[begin:]


def _spans(body: QueuedBody, after: int) -> Iterator[tuple[int, str, dict[str, Any], bytes]]:
    number = body.first_sequence_number - 1
    try:
        request = ExportTraceServiceRequest.FromString(body.data)
    except DecodeError:
        return  # damaged, as above
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                number += 1
                if number > after:
                    fields = _summary_of(span, resource_spans.resource, scope_spans.scope)
                    yield number, SPAN, fields, msgspec.json.encode(fields)


def _summary_of(span: Any, resource: Any, scope: Any) -> dict[str, Any]:
    """Return the fields of a span that are shown live, with the names of events."""
    fields: dict[str, Any] = {
        "event_type": SPAN_EVENT,
        "timestamp": _time(span.start_time_unix_nano),
        "trace_id": span.trace_id.hex(),
        "otel_trace_id": span.trace_id.hex(),
        "span_id": span.span_id.hex(),
        "parent_span_id": span.parent_span_id.hex(),
        "span_name": span.name[:MAX_TEXT],
        "span_kind": _KINDS[span.kind] if 0 <= span.kind < len(_KINDS) else "unspecified",
        "scope": scope.name[:MAX_TEXT],
        "service": next(
            (
                each.value.string_value[:MAX_TEXT]
                for each in resource.attributes
                if each.key == "service.name"
            ),
            "",
        ),
        # Most instrumentations leave the status of successful spans unset.
        "status": _STATUS.get(span.status.code, "success"),
        "duration_ms": max(0, span.end_time_unix_nano - span.start_time_unix_nano) // 1_000_000,
    }
    if span.status.message:
        fields["status_message"] = span.status.message[:MAX_TEXT]
    best: dict[str, int] = {}
    for attribute in span.attributes:
        field, rank = _FIELD_OF.get(attribute.key, ("", 0))
        value = attribute.value.string_value
        if field and value and rank < best.get(field, len(_FIELD_OF)):
            fields[field], best[field] = value[:MAX_TEXT], rank
    return fields


def _time(unix_nano: int) -> str:
    try:
        moment = datetime.fromtimestamp(unix_nano // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{unix_nano % 1_000_000_000:09d}Z"
