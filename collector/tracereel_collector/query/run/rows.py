"""Reads what a run is made of: its events, the runs linked to it, and the spans that others sent."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from tracereel._clock import otel_trace_id
from tracereel_collector.errors import NotFoundError
from tracereel_collector.store.sql import query

MAX_EVENTS = 50_000
"""Most events, and most spans, of which a run is made; what is beyond is said to be left out."""
MAX_RUNS = 200
"""Most runs in one tree."""
MAX_LEVELS = 8
"""Most levels of runs that runs have started."""
TEXT = 2_000
"""Longest text of a step, in characters."""


class Selects(Protocol):
    """What a query needs of the store."""

    def select(self, statement: str, parameters: Mapping[str, Any], /, *, fmt: str) -> bytes:
        """Run a bound query; the answer's bytes in a ClickHouse format."""
        ...


class EventRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One line of `run_events.sql`, in its order of columns."""

    sequence_number: int
    ingested_at: str
    time: str
    unix_nano: int
    hlc: int
    event_id: str
    event_type: str
    trace_id: str
    otel_trace_id: str = ""
    parent_trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    request_id: str = ""
    session_id: str = ""
    user_id: str = ""
    execution_id: str = ""
    service: str = ""
    emitter_id: str = ""
    trace_seq: int = 0
    agent_name: str = ""
    pipeline_type: str = ""
    status: str = ""
    duration_ms: int | None = None
    confidence: float | None = None
    llm_provider: str = ""
    llm_model: str = ""
    tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    error_type: str = ""
    error_code: str = ""
    error_category: str = ""
    span_name: str = ""
    span_start: int = 0
    span_end: int = 0
    attempt: int | None = None
    step_type: str = ""
    call_name: str = ""
    input: str = ""
    input_hash: int = 0
    output: str = ""
    output_hash: int = 0
    reasoning: str = ""
    decision_type: str = ""
    chosen: str = ""
    error_message: str = ""
    stage: str = ""
    retry_attempt: int | None = None
    reason: str = ""
    delay_seconds: float | None = None
    primary_agent: str = ""
    fallback_agent: str = ""
    fallback_successful: bool | None = None
    quality_delta: float | None = None
    wasted_cost_usd: float | None = None
    repeats: str = ""
    origin: str = ""
    trace_event_count: int | None = None
    final_outcome: str = ""
    payload: str = ""


class SpanRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One line of `run_spans.sql`, in its order of columns."""

    sequence_number: int
    ingested_at: str
    trace_id: str
    span_id: str
    parent_span_id: str = ""
    began: int = 0
    duration: int = 0
    name: str = ""
    span_kind: str = ""
    service: str = ""
    status_code: str = ""
    status_message: str = ""
    call_kind: str = ""
    provider: str = ""
    model: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    agent_name: str = ""
    workflow_name: str = ""
    tool_name: str = ""
    error_type: str = ""
    session_id: str = ""
    user_id: str = ""
    attributes: str = ""


class EmitterRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One line of `run_emitters.sql`, in its order of columns."""

    emitter_id: str
    state: str
    service: str
    host: str
    pid: int | None
    last_heartbeat_at: str | None
    claimed: int
    stored: int
    missing: int
    spooled: int
    dropped: dict[str, int]
    clock_ahead_nano: int | None


class _Around(msgspec.Struct, array_like=True, frozen=True, gc=False):
    children: list[str]
    spans: int
    runs: list[str]


_EVENTS = msgspec.json.Decoder(EventRow)
_SPANS = msgspec.json.Decoder(SpanRow)
_EMITTERS = msgspec.json.Decoder(EmitterRow)
_AROUND = msgspec.json.Decoder(_Around)
_PRICES = msgspec.json.Decoder(tuple[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows:
    """What is stored of a run and of the runs linked to it."""

    trace_id: str
    """As it was asked for."""
    trace_ids: tuple[str, ...]
    """The runs that the events are of: the one asked for, then those that it started."""
    events: Sequence[EventRow]
    """In causal order, each once."""
    spans: Sequence[SpanRow]
    prices: Mapping[str, float]
    """What calls cost that did not say so themselves, by span."""
    truncated: bool = False
    """There is more than is held here."""


@dataclass(frozen=True, slots=True)
class RunReader:
    """Selects the rows of runs."""

    store: Selects

    def read(
        self, tenant: str, trace_id: str, *, whole: bool = False, linked: bool = True
    ) -> RunRows:
        """The run of that id, or the runs of an OpenTelemetry trace of that id.

        `whole` brings the events as they were sent and the attributes of spans.

        Raises:
            NotFoundError: this tenant has nothing of that id.
        """
        derived = otel_trace_id(trace_id)
        events, more = self._events(tenant, [trace_id], MAX_EVENTS, whole=whole)
        around = self._around(tenant, [trace_id], derived)
        trace_ids = [trace_id]
        if not events and (runs := [each for each in around.runs if each and each != trace_id]):
            trace_ids = sorted(runs)
            events, more = self._events(tenant, trace_ids, MAX_EVENTS, whole=whole)
            around = self._around(tenant, trace_ids, derived)
        if linked and around.children:
            found, cut = self._linked(tenant, trace_ids, around.children, events, whole=whole)
            events, more = found, more or cut
        traces = sorted({derived, *(row.otel_trace_id for row in events)} - {""})
        spans: list[SpanRow] = []
        if around.spans or len(traces) > 1:
            spans = self._spans(tenant, traces, whole=whole)
            more = more or len(spans) > MAX_EVENTS
            del spans[MAX_EVENTS:]
        if not events and not spans:
            raise NotFoundError(
                f"no event of trace {trace_id!r}",
                hint="events appear within a second of their acknowledgement",
            )
        return RunRows(
            trace_id=trace_id,
            trace_ids=tuple(trace_ids),
            events=events,
            spans=spans,
            prices=self._prices(tenant, traces) if _lacks_prices(events, spans) else {},
            truncated=more,
        )

    def emitters(
        self, tenant: str, emitter_ids: Iterable[str], *, now_unix_milli: int
    ) -> dict[str, EmitterRow]:
        """What is known of emitters, by id; those nobody has heard of are not in it."""
        wanted = sorted(set(emitter_ids) - {""})[:MAX_RUNS]
        if not wanted:
            return {}
        answer = self.store.select(
            query("run_emitters"),
            {"tenant": tenant, "emitter_ids": wanted, "now": now_unix_milli},
            fmt="JSONCompactEachRow",
        )
        return {row.emitter_id: row for row in _EMITTERS.decode_lines(answer)}

    def _linked(
        self,
        tenant: str,
        trace_ids: list[str],
        children: list[str],
        events: list[EventRow],
        *,
        whole: bool,
    ) -> tuple[list[EventRow], bool]:
        """The events with those of the runs below; `trace_ids` grows by their ids."""
        more = False
        for _ in range(MAX_LEVELS):
            new = sorted(set(children) - set(trace_ids))
            more = more or len(trace_ids) + len(new) > MAX_RUNS
            new = new[: MAX_RUNS - len(trace_ids)]
            room = MAX_EVENTS - len(events)
            if not new or room <= 0:
                more = more or bool(new)
                break
            found, cut = self._events(tenant, new, room, whole=whole)
            events, more = [*events, *found], more or cut
            trace_ids += new
            children = self._around(tenant, new, "").children
        return sorted(events, key=lambda row: (row.hlc, row.sequence_number)), more

    def _events(
        self, tenant: str, trace_ids: list[str], most: int, *, whole: bool
    ) -> tuple[list[EventRow], bool]:
        answer = self.store.select(
            query("run_events"),
            {
                "tenant": tenant,
                "trace_ids": trace_ids,
                "text": TEXT,
                "with_payload": whole,
                "limit": most + 1,
            },
            fmt="JSONCompactEachRow",
        )
        rows = _EVENTS.decode_lines(answer)
        return rows[:most], len(rows) > most

    def _around(self, tenant: str, trace_ids: list[str], derived: str) -> _Around:
        answer = self.store.select(
            query("run_around"),
            {
                "tenant": tenant,
                "trace_ids": trace_ids,
                "otel_trace_id": derived,
                "most": MAX_RUNS,
            },
            fmt="JSONCompactEachRow",
        )
        return _AROUND.decode(answer)

    def _spans(self, tenant: str, traces: list[str], *, whole: bool) -> list[SpanRow]:
        answer = self.store.select(
            query("run_spans"),
            {
                "tenant": tenant,
                "trace_ids": traces,
                "with_attributes": whole,
                "limit": MAX_EVENTS + 1,
            },
            fmt="JSONCompactEachRow",
        )
        return _SPANS.decode_lines(answer)

    def _prices(self, tenant: str, traces: list[str]) -> dict[str, float]:
        answer = self.store.select(
            query("run_prices"),
            {"tenant": tenant, "trace_ids": traces, "limit": MAX_EVENTS},
            fmt="JSONCompactEachRow",
        )
        return dict(_PRICES.decode_lines(answer))


def _lacks_prices(events: Iterable[EventRow], spans: Iterable[SpanRow]) -> bool:
    """Whether a call of a model says how many tokens it took and not what it cost."""
    return any(
        row.tokens is not None and row.cost_usd is None
        for row in events
        if row.event_type == "agent.llm.called"
    ) or any(row.tokens is not None and row.cost_usd is None for row in spans)
