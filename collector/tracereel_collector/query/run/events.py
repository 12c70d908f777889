"""An event as it was sent becomes a row of the model: what has no column is taken from its payload."""

from typing import Any, Final

import msgspec

TEXT: Final = 2_000
"""Longest text of a step, in characters."""
_NOTHING: Final = msgspec.Raw(b"")


class EventRow(msgspec.Struct, frozen=True, gc=False):
    """One event of a run, with what the model of a run takes from it."""

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


class StoredEvent(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One line of `run_events.sql`, in its order of columns."""

    sequence_number: int
    ingested_at: str
    unix_nano: int
    hlc: int
    event_id: str
    event_type: str
    trace_id: str
    otel_trace_id: str
    parent_trace_id: str
    span_id: str
    parent_span_id: str
    request_id: str
    session_id: str
    user_id: str
    execution_id: str
    service: str
    emitter_id: str
    trace_seq: int
    agent_name: str
    pipeline_type: str
    status: str
    duration_ms: int | None
    confidence: float | None
    llm_provider: str
    llm_model: str
    tokens: int | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    error_type: str
    error_code: str
    error_category: str
    payload: str


class _Facts(msgspec.Struct, gc=False):
    """What the model of a run takes from an event as it was sent; anything may be there, or nothing."""

    timestamp: Any = ""
    span_name: Any = ""
    span_start_unix_nano: Any = 0
    span_end_unix_nano: Any = 0
    attempt: Any = None
    step_type: Any = ""
    tool_name: Any = ""
    step_name: Any = ""
    retrieval_name: Any = ""
    arguments: msgspec.Raw = _NOTHING
    input_messages: msgspec.Raw = _NOTHING
    query: msgspec.Raw = _NOTHING
    user_prompt: msgspec.Raw = _NOTHING
    input_data: msgspec.Raw = _NOTHING
    input_summary: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    output_messages: msgspec.Raw = _NOTHING
    documents: msgspec.Raw = _NOTHING
    output_data: msgspec.Raw = _NOTHING
    output_summary: msgspec.Raw = _NOTHING
    result_summary: msgspec.Raw = _NOTHING
    fallback_output_summary: msgspec.Raw = _NOTHING
    reasoning: Any = ""
    decision_type: Any = ""
    chosen: msgspec.Raw = _NOTHING
    error_message: Any = ""
    original_error: Any = ""
    primary_error: Any = ""
    stage: Any = ""
    retry_attempt: Any = None
    retry_reason: Any = ""
    trigger_reason: Any = ""
    cancel_reason: Any = ""
    delay_seconds: Any = None
    primary_agent: Any = ""
    fallback_agent: Any = ""
    fallback_successful: Any = None
    quality_delta: Any = None
    wasted_cost_usd: Any = None
    repeats_execution_id: Any = ""
    origin_execution_id: Any = ""
    trace_event_count: Any = None
    final_outcome: Any = ""


_FACTS: Final = msgspec.json.Decoder(_Facts)
_NO_FACTS: Final = _Facts()


def event_row(stored: StoredEvent, *, whole: bool) -> EventRow:
    """The row of an event; with its payload only where it is wanted `whole`."""
    try:
        said = _FACTS.decode(stored.payload)
    except (
        msgspec.DecodeError
    ):  # the door lets none such in; a row of another origin may be anything
        said = _NO_FACTS
    given = _first(
        *(said.arguments, said.input_messages, said.query),
        *(said.user_prompt, said.input_data, said.input_summary),
    )
    made = _first(
        *(said.result, said.output_messages, said.documents, said.output_data),
        *(said.output_summary, said.result_summary, said.fallback_output_summary),
    )
    return EventRow(
        sequence_number=stored.sequence_number,
        ingested_at=stored.ingested_at,
        time=_text(said.timestamp),
        unix_nano=stored.unix_nano,
        hlc=stored.hlc,
        event_id=stored.event_id,
        event_type=stored.event_type,
        trace_id=stored.trace_id,
        otel_trace_id=stored.otel_trace_id,
        parent_trace_id=stored.parent_trace_id,
        span_id=stored.span_id,
        parent_span_id=stored.parent_span_id,
        request_id=stored.request_id,
        session_id=stored.session_id,
        user_id=stored.user_id,
        execution_id=stored.execution_id,
        service=stored.service,
        emitter_id=stored.emitter_id,
        trace_seq=stored.trace_seq,
        agent_name=stored.agent_name,
        pipeline_type=stored.pipeline_type,
        status=stored.status,
        duration_ms=stored.duration_ms,
        confidence=stored.confidence,
        llm_provider=stored.llm_provider,
        llm_model=stored.llm_model,
        tokens=stored.tokens,
        prompt_tokens=stored.prompt_tokens,
        completion_tokens=stored.completion_tokens,
        cost_usd=stored.cost_usd,
        error_type=stored.error_type,
        error_code=stored.error_code,
        error_category=stored.error_category,
        span_name=_text(said.span_name),
        span_start=_count(said.span_start_unix_nano) or 0,
        span_end=_count(said.span_end_unix_nano) or 0,
        attempt=_count(said.attempt),
        step_type=_text(said.step_type),
        call_name=_text(said.tool_name or said.step_name or said.retrieval_name),
        input=_words(given),
        # Only ever compared within this process.
        input_hash=hash(given),
        output=_words(made),
        output_hash=hash(made),
        reasoning=_text(said.reasoning),
        decision_type=_text(said.decision_type),
        chosen=_words(_first(said.chosen)),
        error_message=_text(said.error_message or said.original_error or said.primary_error),
        stage=_text(said.stage),
        retry_attempt=_count(said.retry_attempt),
        reason=_text(said.retry_reason or said.trigger_reason or said.cancel_reason),
        delay_seconds=_number(said.delay_seconds),
        primary_agent=_text(said.primary_agent),
        fallback_agent=_text(said.fallback_agent),
        fallback_successful=(
            said.fallback_successful if isinstance(said.fallback_successful, bool) else None
        ),
        quality_delta=_number(said.quality_delta),
        wasted_cost_usd=_number(said.wasted_cost_usd),
        repeats=_text(said.repeats_execution_id),
        origin=_text(said.origin_execution_id),
        trace_event_count=_count(said.trace_event_count),
        final_outcome=_text(said.final_outcome),
        payload=stored.payload if whole else "",
    )


def _first(*values: msgspec.Raw) -> bytes:
    """The first value that says anything, as JSON."""
    for value in values:
        if value is not _NOTHING and (raw := bytes(value)) not in (b"null", b'""'):
            return raw
    return b""


def _words(raw: bytes) -> str:
    """A value for people: a text as it is, anything else as JSON."""
    if raw in (b"", b"null"):
        return ""
    if raw[:1] == b'"':
        return str(msgspec.json.decode(raw))[:TEXT]
    return raw[: TEXT * 4].decode(errors="ignore")[:TEXT]


def _text(value: Any) -> str:
    """A field that should be a text; custom events may hold anything."""
    if isinstance(value, str):
        return value if len(value) <= TEXT else value[:TEXT]
    return (
        ""
        if value is None
        else msgspec.json.encode(value)[: TEXT * 4].decode(errors="ignore")[:TEXT]
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**63 and value is not True else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 2**63 else None
