"""An event as it was sent becomes a row of the model: what has no column is taken from its payload."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw

TEXT: Final = 2_000
"""Longest text of a step, in characters."""
_NOTHING: Final = Raw(b"")
_MAX_COUNT: Final = 2**63 - 1

Text = Annotated[str, Meta(max_length=TEXT)]
Count = Annotated[int, Meta(ge=0, le=_MAX_COUNT)]


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What the model of a run takes from an event as it was sent, where it is as the contract says."""

    timestamp: Text | None = None
    span_name: Text | None = None
    span_start_unix_nano: Count | None = None
    span_end_unix_nano: Count | None = None
    attempt: Count | None = None
    step_type: Text | None = None
    tool_name: Text | None = None
    step_name: Text | None = None
    retrieval_name: Text | None = None
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
    reasoning: Text | None = None
    decision_type: Text | None = None
    chosen: Raw = _NOTHING
    error_message: Text | None = None
    original_error: Text | None = None
    primary_error: Text | None = None
    stage: Text | None = None
    retry_attempt: Count | None = None
    retry_reason: Text | None = None
    trigger_reason: Text | None = None
    cancel_reason: Text | None = None
    delay_seconds: float | None = None
    primary_agent: Text | None = None
    fallback_agent: Text | None = None
    fallback_successful: bool | None = None
    quality_delta: float | None = None
    wasted_cost_usd: float | None = None
    repeats_execution_id: Text | None = None
    trace_event_count: Count | None = None
    final_outcome: Text | None = None


NO_FACTS: Final = Facts()


class EventRow(msgspec.Struct, array_like=True, gc=False):
    """One event of a run: a line of `run_events.sql`, in its order of columns, and what it said."""

    sequence_number: int
    ingested_at: str
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
    payload: str = ""
    said: Facts = NO_FACTS
    """No column: put here by `with_facts`."""

    @property
    def time(self) -> str:
        """When it happened, as its sender wrote it."""
        return self.said.timestamp or ""

    @property
    def span_name(self) -> str:
        """What its span is called."""
        return self.said.span_name or ""

    @property
    def span_start(self) -> int:
        """When its span began, in unix nanoseconds; 0 where it does not say."""
        return self.said.span_start_unix_nano or 0

    @property
    def span_end(self) -> int:
        """When its span ended."""
        return self.said.span_end_unix_nano or 0

    @property
    def attempt(self) -> int | None:
        """Which try it was."""
        return self.said.attempt

    @property
    def step_type(self) -> str:
        """What kind of step a step is."""
        return self.said.step_type or ""

    @property
    def call_name(self) -> str:
        """What was called: a tool, a step or a retrieval."""
        said = self.said
        return said.tool_name or said.step_name or said.retrieval_name or ""

    @property
    def input(self) -> str:
        """What went in, for people."""
        return _words(self._given())

    @property
    def input_hash(self) -> int:
        """Of all that went in, 0 for nothing; only ever compared within this process."""
        return hash(self._given())

    @property
    def output(self) -> str:
        """What came out, for people."""
        return _words(self._made())

    @property
    def output_hash(self) -> int:
        """Of all that came out."""
        return hash(self._made())

    @property
    def reasoning(self) -> str:
        """Why."""
        return self.said.reasoning or ""

    @property
    def decision_type(self) -> str:
        """What was decided about."""
        return self.said.decision_type or ""

    @property
    def chosen(self) -> str:
        """What was decided, for people."""
        return _words(_first(self.said.chosen))

    @property
    def error_message(self) -> str:
        """What went wrong, in words."""
        said = self.said
        return said.error_message or said.original_error or said.primary_error or ""

    @property
    def stage(self) -> str:
        """Where in an execution it went wrong."""
        return self.said.stage or ""

    @property
    def retry_attempt(self) -> int | None:
        """Which try failed."""
        return self.said.retry_attempt

    @property
    def reason(self) -> str:
        """Why it was tried again, taken over or cancelled."""
        said = self.said
        return said.retry_reason or said.trigger_reason or said.cancel_reason or ""

    @property
    def delay_seconds(self) -> float | None:
        """How long was waited before the next try."""
        return self.said.delay_seconds

    @property
    def primary_agent(self) -> str:
        """Who should have done it."""
        return self.said.primary_agent or ""

    @property
    def fallback_agent(self) -> str:
        """Who took over."""
        return self.said.fallback_agent or ""

    @property
    def fallback_successful(self) -> bool | None:
        """Whether taking over helped."""
        return self.said.fallback_successful

    @property
    def quality_delta(self) -> float | None:
        """How much worse the other's result is."""
        return self.said.quality_delta

    @property
    def wasted_cost_usd(self) -> float | None:
        """What was spent for nothing, as its sender says."""
        return self.said.wasted_cost_usd

    @property
    def repeats(self) -> str:
        """The execution that it is another try at."""
        return self.said.repeats_execution_id or ""

    @property
    def trace_event_count(self) -> int | None:
        """How many events its emitter says the run has."""
        return self.said.trace_event_count

    @property
    def final_outcome(self) -> str:
        """How a pipeline says it ended."""
        return self.said.final_outcome or ""

    def _given(self) -> bytes:
        said = self.said
        return _first(
            *(said.arguments, said.input_messages, said.query),
            *(said.user_prompt, said.input_data, said.input_summary),
        )

    def _made(self) -> bytes:
        said = self.said
        return _first(
            *(said.result, said.output_messages, said.documents, said.output_data),
            *(said.output_summary, said.result_summary, said.fallback_output_summary),
        )


_FACTS: Final = msgspec.json.Decoder(Facts)
_FIELDS: Final = msgspec.structs.fields(Facts)
# Users' own events may call their fields what they like, and put anything into them.
_ANYTHING: Final = msgspec.json.Decoder(
    msgspec.defstruct(
        "Anything",
        [(each.name, Raw if each.type is Raw else Any, each.default) for each in _FIELDS],
    )
)


def with_facts(rows: Iterable[EventRow], *, whole: bool) -> None:
    """Take from each payload what the model needs; it is kept only where it is wanted `whole`."""
    decode = _FACTS.decode
    for row in rows:
        try:
            row.said = decode(row.payload)
        except msgspec.DecodeError:
            row.said = _whatever(row.payload)
        if not whole:
            row.payload = ""


def _whatever(payload: str) -> Facts:
    """What can be made of an event whose fields hold something else than the contract says."""
    try:
        said = _ANYTHING.decode(payload)
    except (
        msgspec.DecodeError
    ):  # the door lets none such in; a row of another origin may be anything
        return NO_FACTS
    kept = {each.name: getattr(said, each.name) for each in _FIELDS}
    for each in _FIELDS:
        if each.type is not Raw and kept[each.name] is not None:
            kept[each.name] = _MENDED[each.type](kept[each.name])
    return Facts(**kept)


def _first(*values: Raw) -> bytes:
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
    """A field that should be a text."""
    if isinstance(value, str):
        return value[:TEXT]
    return msgspec.json.encode(value)[: TEXT * 4].decode(errors="ignore")[:TEXT]


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _MAX_COUNT else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 2**63 else None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


_MENDED: Final = {
    Text | None: _text,
    Count | None: _count,
    float | None: _number,
    bool | None: _truth,
}
