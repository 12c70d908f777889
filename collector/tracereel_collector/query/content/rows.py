"""Rows behind the content of a step: its span, log records of the span, earlier model calls."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from tracereel_collector.query.store_reader import StoreReader, read_rows
from tracereel_collector.store.sql import query

MAX_LOGS: Final = 2_000
"""Log records of one span that are read."""
MAX_CALLS: Final = 5
"""Earlier model calls that are compared with one."""
_AT_ONCE: Final = 8
"""Spans that are in memory at a time with all that they hold."""
Place = tuple[str, str]
"""Trace and span."""


class SpanEvent(NamedTuple):
    """Event of a span."""

    name: str
    unix_nano: int
    attributes: dict[str, str]


class ContentSpan(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `step_spans.sql`, in column order."""

    trace_id: str = ""
    span_id: str = ""
    began: int = 0
    duration: int = 0
    call_kind: str = ""
    provider: str = ""
    model: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    tool_name: str = ""
    tool_call_id: str = ""
    finish_reason: str = ""
    first_token_ms: float | None = None
    attributes: dict[str, str] = {}
    types: dict[str, int] = {}
    names: list[str] = []
    times: list[int] = []
    event_attributes: list[dict[str, str]] = []

    @property
    def events(self) -> Iterator[SpanEvent]:
        """Events of the span in order."""
        return map(SpanEvent, self.names, self.times, self.event_attributes)


class ContentLog(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `step_logs.sql`, in column order."""

    name: str
    body: str = ""
    attributes: dict[str, str] = {}


class EarlierCall(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `calls_before.sql`, in column order."""

    step_id: str
    sequence_number: int
    """Number of the event of the call; 0 if only a span describes it."""
    began: int
    ended: int


def span_of(
    store: StoreReader, tenant: str, traces: Sequence[str], span_id: str
) -> ContentSpan | None:
    """Return a span of another instrumentation, if there is one."""
    found = _rows(store, "step_spans", ContentSpan, tenant, traces, span_ids=[span_id])
    return found[0] if found else None


def spans_of(
    store: StoreReader, tenant: str, places: Collection[Place]
) -> Iterator[tuple[Place, ContentSpan]]:
    """Yield spans of other instrumentations by trace and span id, few of them at a time."""
    waiting = sorted(places)
    for start in range(0, len(waiting), _AT_ONCE):
        some = waiting[start : start + _AT_ONCE]
        traces, spans = sorted({trace for trace, _ in some}), [span for _, span in some]
        for row in _rows(store, "step_spans", ContentSpan, tenant, traces, span_ids=spans):
            if (place := (row.trace_id, row.span_id)) in places:
                yield place, row


def logs_of(
    store: StoreReader, tenant: str, traces: Sequence[str], span_id: str
) -> list[ContentLog]:
    """Return the log records of a span that hold messages."""
    return _rows(store, "step_logs", ContentLog, tenant, traces, span_id=span_id, limit=MAX_LOGS)


def calls_before(
    store: StoreReader,
    tenant: str,
    traces: Sequence[str],
    *,
    trace_id: str,
    step_id: str,
    before: int,
) -> list[EarlierCall]:
    """Return model calls of a run that ended before a moment, the latest first."""
    asked = {"trace_id": trace_id, "step_id": step_id, "before": before, "limit": MAX_CALLS}
    return _rows(store, "calls_before", EarlierCall, tenant, traces, **asked)


def _rows(
    store: StoreReader, name: str, row: type[Any], tenant: str, traces: Sequence[str], **more: Any
) -> list[Any]:
    return read_rows(store, query(name), row, tenant=tenant, trace_ids=list(traces), **more)
