"""Fields of every event, and the types that fields share."""

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

EVENT_VERSION: Final = "1.0.0"
TRACE_ID_PATTERN: Final = r"^[A-Za-z0-9_.:-]{1,128}$"
EVENT_VERSION_PATTERN: Final = r"^1(\.[0-9]+){1,2}$"


def _utc(value: datetime) -> datetime:
    """Treat a timestamp without a zone as UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


Timestamp = Annotated[datetime, AfterValidator(_utc)]
TraceId = Annotated[str, Field(pattern=TRACE_ID_PATTERN)]
OtelTraceId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
SpanId = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Ratio = Annotated[float, Field(ge=0.0, le=1.0)]


class Envelope(BaseModel):
    """Fields of every event: identity, place in the trace, ledger."""

    model_config = ConfigDict(extra="allow", frozen=True)

    event_id: Name
    event_version: Annotated[str, Field(pattern=EVENT_VERSION_PATTERN)] = EVENT_VERSION
    timestamp: Timestamp
    trace_id: TraceId

    otel_trace_id: OtelTraceId | None = None
    """OpenTelemetry trace id of the event's span; derived from `trace_id` if absent."""
    span_id: SpanId | None = None
    parent_span_id: SpanId | None = None
    session_id: str | None = None
    service: str | None = None
    user_id: str | None = None
    execution_id: str | None = None
    event_index: Count | None = None
    """Number of this event in its execution, from 0."""

    emitter_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Id of the emitting process; `emitter_seq` numbers its events without gaps."""
    emitter_seq: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    trace_seq: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    """Number of this event among those of its emitter for this trace."""
    trace_event_count: Count | None = None
    """Events its emitter recorded for the trace; set on the event that closes a run."""
    hlc: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")] | None = None
    """Hybrid logical clock in nanoseconds, 16 hex digits; increases along causality."""

    span_name: str | None = None
    """Name of the span. Closing events also have its start, end and attempt."""
    span_start_unix_nano: Count | None = None
    span_end_unix_nano: Count | None = None
    attempt: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None

    content_bytes: Count | None = None
    """Length of the content fields as JSON, if they are large: they then follow at the end."""
