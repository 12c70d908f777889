"""Hand-made store rows; times are milliseconds after the start of the run."""

import itertools

import msgspec

from tracereel_collector.query.run.rows import EventRow, RunRows, SpanRow

BEGAN = 1_769_162_400_000_000_000
MILLI = 1_000_000
_numbers = itertools.count(1)
_SAID = {
    "call_name": "tool_name",
    "reason": "retry_reason",
    "duration_ms": "own_duration_ms",
    "confidence": "own_confidence",
    "error_message": "error_message_given",
}
"""Columns that the model derives from several fields, with one source field each."""
_RAW = {"arguments": "arguments", "input": "input_summary", "output": "output_summary"}
_RAW |= {"chosen": "chosen_value"}


def event(event_type, at=0.0, *, start=None, hlc=None, **fields):
    """Return one event at a moment; with `start` it closes a span that began then."""
    number = next(_numbers)
    moment = BEGAN + round(at * MILLI)
    if start is not None:
        fields |= {"span_start": BEGAN + round(start * MILLI), "span_end": moment}
    kind = event_type.rsplit(".", 1)[-1]
    words = {"completed": "success", "called": "success"}
    fields.setdefault("status", words.get(kind, kind if kind in ("failed", "cancelled") else ""))
    fields.setdefault("trace_id", "trc")
    fields.setdefault("event_id", f"evt_{number}")
    told = {_SAID.get(name, name): fields[name] for name in fields.keys() - _RAW.keys()}
    raw = {_RAW[name]: fields[name] for name in fields.keys() & _RAW.keys()}
    return EventRow(
        sequence_number=number,
        ingested_at="2026-01-23T10:00:00.000000Z",
        time="2026-01-23T10:00:00Z",
        unix_nano=moment,
        hlc=moment if hlc is None else BEGAN + round(hlc * MILLI),
        event_type=f"agent.{event_type}",
        **told,
        **{name: msgspec.Raw(msgspec.json.encode(value)) for name, value in raw.items()},
    )


def span(span_id, parent, start, end, **fields):
    """Return a span of another instrumentation."""
    fields.setdefault("trace_id", "0" * 32)
    return SpanRow(
        sequence_number=next(_numbers),
        ingested_at="2026-01-23T10:00:00.000000Z",
        span_id=span_id,
        parent_span_id=parent,
        began=BEGAN + round(start * MILLI),
        duration=round((end - start) * MILLI),
        name=fields.pop("name", span_id),
        **fields,
    )


def rows(*events, spans=(), span_events=(), prices=None, trace_ids=("trc",), truncated=False):
    """Return a run of events and spans in causal order."""
    return RunRows(
        trace_id=trace_ids[0],
        trace_ids=tuple(trace_ids),
        events=sorted(events, key=lambda row: (row.hlc, row.sequence_number)),
        spans=list(spans),
        span_events=list(span_events),
        prices=prices or {},
        truncated=truncated,
    )
