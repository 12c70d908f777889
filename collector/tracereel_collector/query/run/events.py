"""Conversion of stored events into rows of the model, mostly from their payloads."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw

from tracereel._runtime.clock import otel_trace_id

TEXT: Final = 2_000
"""Maximum length of a text of a step, in characters."""
_NOTHING: Final = Raw(b"")
_MAX_COUNT: Final = 2**63 - 1

Text = Annotated[str, Meta(max_length=TEXT)]
Count = Annotated[int, Meta(ge=0, le=_MAX_COUNT)]


_STORED: Final = ("sequence_number", "ingested_at", "unix_nano", "hlc", "payload")
_NAMES: Final = {
    # These come from columns; payload fields of the same name must not override them.
    **{name: f"column {name}" for name in _STORED},
    "time": "timestamp",
    "span_start": "span_start_unix_nano",
    "span_end": "span_end_unix_nano",
    "tokens": "llm_tokens_used",
    "prompt_tokens": "llm_prompt_tokens",
    "completion_tokens": "llm_completion_tokens",
    "cost_usd": "llm_cost_usd",
    "model_requested": "llm_model_requested",
    "own_duration_ms": "duration_ms",
    "own_confidence": "confidence",
    "repeats": "repeats_execution_id",
    "chosen_value": "chosen",
    "error_message_given": "error_message",
}
_IMPLIED: Final = {"completed": "success", "failed": "failed", "cancelled": "cancelled"}


class StoredEvent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Row of `run_events.sql` or `run_whole.sql`, in column order."""

    sequence_number: int
    ingested_at: str
    """Arrival time; empty for rows that are not events.

    Their payload is the id of a child run, or empty to mark that foreign spans exist.
    """
    unix_nano: int
    hlc: int
    payload: str


class EventRow(msgspec.Struct, gc=False, rename=_NAMES):
    """One event of a run, with its position among the others.

    Fields are decoded from the payload, because one text is faster to read than thirty columns.
    """

    sequence_number: int = 0
    ingested_at: str = ""
    unix_nano: int = 0
    hlc: int = 0
    payload: str = ""
    time: Text = ""
    """Time of the event, as sent."""
    event_id: Text = ""
    event_type: Text = ""
    trace_id: Text = ""
    otel_trace_id: Text = ""
    parent_trace_id: Text = ""
    span_id: Text = ""
    parent_span_id: Text = ""
    request_id: Text = ""
    session_id: Text = ""
    user_id: Text = ""
    execution_id: Text = ""
    service: Text = ""
    emitter_id: Text = ""
    trace_seq: Count = 0
    agent_name: Text = ""
    pipeline_type: Text = ""
    status: Text = ""
    execution_time_ms: Count | None = None
    execution_time_before_failure_ms: Count | None = None
    execution_time_before_cancel_ms: Count | None = None
    total_execution_time_ms: Count | None = None
    own_duration_ms: Count | None = None
    decision_duration_ms: Count | None = None
    own_confidence: float | None = None
    final_confidence: float | None = None
    fallback_confidence: float | None = None
    llm_provider: Text = ""
    llm_model: Text = ""
    tokens: Count | None = None
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cost_usd: float | None = None
    model_requested: Text = ""
    response_id: Text = ""
    error_type: Text = ""
    error_code: Text = ""
    error_category: Text = ""
    span_name: Text = ""
    span_start: Count = 0
    span_end: Count = 0
    attempt: Count | None = None
    step_type: Text = ""
    tool_name: Text = ""
    step_name: Text = ""
    retrieval_name: Text = ""
    arguments: Raw = _NOTHING
    input_messages: Raw = _NOTHING
    query: Raw = _NOTHING
    user_prompt: Raw = _NOTHING
    input_data: Raw = _NOTHING
    input_summary: Raw = _NOTHING
    result: Raw = _NOTHING
    output_messages: Raw = _NOTHING
    documents: Raw = _NOTHING
    output_data: Raw = _NOTHING
    output_summary: Raw = _NOTHING
    result_summary: Raw = _NOTHING
    fallback_output_summary: Raw = _NOTHING
    reasoning: Text = ""
    decision_type: Text = ""
    decision_category: Text = ""
    threshold: float | None = None
    chosen_value: Raw = _NOTHING
    error_message_given: Text = ""
    original_error: Text = ""
    primary_error: Text = ""
    stage: Text = ""
    retry_attempt: Count | None = None
    retry_count: Count | None = None
    retry_reason: Text = ""
    trigger_reason: Text = ""
    cancel_reason: Text = ""
    delay_seconds: float | None = None
    primary_agent: Text = ""
    fallback_agent: Text = ""
    fallback_attempted: bool | None = None
    fallback_successful: bool | None = None
    retry_successful: bool | None = None
    quality_delta: float | None = None
    wasted_cost_usd: float | None = None
    repeats: Text = ""
    """Execution that this one retries."""
    trace_event_count: Count | None = None
    final_outcome: Text = ""
    agent_sequence: Raw = _NOTHING

    @property
    def duration_ms(self) -> int | None:
        """Reported duration."""
        for value in (
            self.execution_time_ms,
            self.execution_time_before_failure_ms,
            self.execution_time_before_cancel_ms,
            self.total_execution_time_ms,
            self.own_duration_ms,
        ):
            if value is not None:
                return value
        return self.decision_duration_ms

    @property
    def confidence(self) -> float | None:
        """Reported confidence."""
        for value in (self.own_confidence, self.final_confidence):
            if value is not None:
                return value
        return self.fallback_confidence

    @property
    def call_name(self) -> str:
        """Name of the tool, step or retrieval that was called."""
        return self.tool_name or self.step_name or self.retrieval_name

    @property
    def input(self) -> str:
        """Input as display text."""
        return _words(self._given())

    @property
    def input_hash(self) -> int:
        """Hash of the whole input, 0 if empty; comparable only within this process."""
        return hash(self._given())

    @property
    def output(self) -> str:
        """Output as display text."""
        return _words(self._made())

    @property
    def output_hash(self) -> int:
        """Hash of the whole output."""
        return hash(self._made())

    @property
    def chosen(self) -> str:
        """Decision as display text."""
        return "" if self.chosen_value is _NOTHING else _words(_first(self.chosen_value))

    @property
    def error_message(self) -> str:
        """Error message."""
        return self.error_message_given or self.original_error or self.primary_error

    @property
    def reason(self) -> str:
        """Reason of the retry, fallback or cancellation."""
        return self.retry_reason or self.trigger_reason or self.cancel_reason

    def _given(self) -> bytes:
        return _first(
            *(self.arguments, self.query, self.user_prompt, self.input_data),
            *(self.input_summary, self.input_messages),
        )

    def _made(self) -> bytes:
        return _first(
            *(self.result, self.documents, self.output_data, self.output_summary),
            *(self.output_messages, self.result_summary, self.fallback_output_summary),
        )


_ROWS: Final = msgspec.json.Decoder(EventRow)
_OBJECTS: Final = msgspec.json.Decoder(dict[str, Raw])
_FIELDS: Final = {each.encode_name: each for each in msgspec.structs.fields(EventRow)}


def event_rows(stored: Iterable[StoredEvent], *, whole: bool) -> list[EventRow]:
    """Return the rows of events; `whole` keeps the payloads."""
    decode = _ROWS.decode
    made = []
    for each in stored:
        try:
            row = decode(each.payload)
        except msgspec.DecodeError:
            row = _whatever(each.payload)
        row.sequence_number = each.sequence_number
        row.ingested_at = each.ingested_at
        row.unix_nano = each.unix_nano
        row.hlc = each.hlc
        row.payload = each.payload if whole else ""
        if not row.status:
            row.status = _IMPLIED.get(row.event_type.rpartition(".")[2], "")
        if not row.otel_trace_id:
            row.otel_trace_id = _otel_trace_id(row.trace_id)
        made.append(row)
    return made


def fill_sessions(rows: Sequence[EventRow], named: Sequence[tuple[str, str]] = ()) -> None:
    """Set the session of events that were sent without it: that of their execution, else of their run.

    A run with several sessions gives none. `named` has the run and the session of events that are not
    among the rows.
    """
    by_execution: dict[tuple[str, str], str] = {}
    by_run: dict[str, set[str]] = {}
    for trace_id, session in named:
        by_run.setdefault(trace_id, set()).add(session)
    for row in rows:
        if row.session_id:
            by_run.setdefault(row.trace_id, set()).add(row.session_id)
            if row.execution_id:
                by_execution[row.trace_id, row.execution_id] = row.session_id
    for row in rows if by_run else ():
        if row.session_id or row.trace_id not in by_run:
            continue
        sessions = by_run[row.trace_id]
        only = next(iter(sessions)) if len(sessions) == 1 else ""
        row.session_id = by_execution.get((row.trace_id, row.execution_id), only)
        if row.session_id and row.payload:
            row.payload = with_fields(row.payload, {"session_id": row.session_id})


def with_fields(payload: str, fields: Mapping[str, object]) -> str:
    """Return an event with some fields set."""
    said = _OBJECTS.decode(payload)
    known = {name: Raw(msgspec.json.encode(value)) for name, value in fields.items()}
    return msgspec.json.encode(said | known).decode()


_otel_trace_id: Final = lru_cache(1_000)(otel_trace_id)


def _whatever(payload: str) -> EventRow:
    """Return the row of an event whose fields do not match the contract.

    Custom events may use the same field names with other types.
    """
    try:
        fields = _OBJECTS.decode(payload)
    except msgspec.DecodeError:  # ingest refuses invalid JSON, but rows of other origin may have it
        return EventRow()
    kept: dict[str, Any] = {}
    for name, raw in fields.items():
        field = _FIELDS.get(name)
        if field is None or bytes(raw) == b"null":
            continue
        kept[field.name] = raw if field.type is Raw else _mended(raw, field.type)
    return EventRow(**{name: value for name, value in kept.items() if value is not None})


def _mended(raw: Raw, wanted: Any) -> Any:
    """Return the value with the expected type, converted to text if possible; else `None`."""
    try:
        return msgspec.json.decode(raw, type=wanted)
    except msgspec.DecodeError:
        return _text(msgspec.json.decode(raw)) if wanted is Text else None


def _first(*values: Raw) -> bytes:
    """Return the first value that is not empty, as JSON."""
    for value in values:
        if value is not _NOTHING and (raw := bytes(value)) not in (b"null", b'""'):
            return raw
    return b""


def _words(raw: bytes) -> str:
    """Return a value as display text: strings as they are, others as JSON."""
    if raw in (b"", b"null"):
        return ""
    if raw[:1] == b'"':
        return str(msgspec.json.decode(raw))[:TEXT]
    return raw[: TEXT * 4].decode(errors="ignore")[:TEXT]


def _text(value: Any) -> str:
    """Return any value as text."""
    if isinstance(value, str):
        return value[:TEXT]
    return msgspec.json.encode(value)[: TEXT * 4].decode(errors="ignore")[:TEXT]
