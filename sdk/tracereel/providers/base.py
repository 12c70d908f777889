"""The canonical language: the events that every provider's answers and streams are told in."""

from hashlib import blake2b
from typing import Any, Final, Literal

import msgspec

UNKNOWN_MODEL: Final = "unknown"

EventType = Literal[
    "session_start",
    "user_message",
    "thinking",
    "tool_request",
    "tool_response",
    "assistant_message",
    "error",
    "complete",
    "approval_requested",
    "approval_resolved",
    "turn_paused",
    "content_refused",
]
StreamEventType = Literal[
    "stream_start",
    "reasoning_delta",
    "content_delta",
    "tool_call",
    "citation",
    "usage",
    "stream_end",
]
StopReason = Literal["success", "max_tokens", "paused", "refused", "error", "user_cancelled"]
PersistenceStrategy = Literal["sync", "async", "transient"]

PERSISTENCE: Final[dict[str, PersistenceStrategy]] = {
    "session_start": "transient",
    "user_message": "sync",
    "thinking": "transient",
    "tool_request": "async",
    "tool_response": "async",
    "assistant_message": "sync",
    "error": "transient",
    "complete": "transient",
    "approval_requested": "sync",
    "approval_resolved": "sync",
    "turn_paused": "sync",
    "content_refused": "sync",
    "stream_start": "transient",
    "reasoning_delta": "transient",
    "content_delta": "transient",
    "tool_call": "transient",
    "citation": "transient",
    "usage": "transient",
    "stream_end": "transient",
}
"""Type → how a system that keeps messages would keep it: before it goes on, later, or not at all."""

ROLES: Final[dict[str, str]] = {
    "session_start": "system",
    "user_message": "user",
    "thinking": "assistant",
    "tool_request": "assistant",
    "tool_response": "tool",
    "assistant_message": "assistant",
    "error": "system",
    "complete": "system",
    "approval_requested": "system",
    "approval_resolved": "user",
    "turn_paused": "assistant",
    "content_refused": "assistant",
    "stream_start": "system",
    "reasoning_delta": "assistant",
    "content_delta": "assistant",
    "tool_call": "assistant",
    "citation": "assistant",
    "usage": "system",
    "stream_end": "system",
}
"""Type → who speaks."""

RETIRED_TYPES: Final = frozenset({"thinking_chunk", "message_chunk", "message_partial"})
"""Names of an older protocol that are never emitted."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one answer. Input has its cached parts in it, output its reasoning part."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int | None = None
    """Input that was read from the provider's cache."""
    cache_creation_tokens: int | None = None
    """Input that was written to the provider's cache."""
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=_sum(self.cached_tokens, other.cached_tokens),
            cache_creation_tokens=_sum(self.cache_creation_tokens, other.cache_creation_tokens),
            reasoning_tokens=_sum(self.reasoning_tokens, other.reasoning_tokens),
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return left if right is None else right if left is None else left + right


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the model wants called."""

    id: str
    """The framework's id where there is one: what a result refers to."""
    name: str
    arguments: dict[str, Any]
    provider_id: str | None = None
    """The provider's own id, where it is not the same."""
    arguments_text: str | None = None
    """The arguments as they came, where they are no JSON object."""
    runs_at_provider: bool = False


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answered."""

    call_id: str
    name: str | None
    content: Any
    success: bool
    error: str | None = None
    provider_id: str | None = None
    runs_at_provider: bool = False


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """From where to where; `unit` says of what: `char`, `page` and `block` count in the source,
    `answer_char` and `answer_byte` in the answer."""

    start: int
    end: int
    unit: str = "char"


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A source that the answer leans on."""

    text: str
    source: str
    title: str | None = None
    document_index: int | None = None
    location: Location | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error that came instead of an answer, or in the middle of one."""

    type: str
    message: str
    code: str | None = None


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A person is asked, or has answered; times are seconds since 1970."""

    id: str
    tool_name: str | None = None
    question: Any = None
    approved: bool | None = None
    requested_at: float | None = None
    resolved_at: float | None = None

    @property
    def waited_seconds(self) -> float | None:
        if self.requested_at is None or self.resolved_at is None:
            return None
        return max(0.0, self.resolved_at - self.requested_at)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that could not be understood and was passed over; the rest is unharmed."""

    code: str
    message: str
    message_index: int | None = None
    block_index: int | None = None
    raw: Any = None


def event_id(key: tuple[str | None, str | None, int, str, str | None]) -> str:
    """The id of an event: of session, message, place, type, and what it is about."""
    digest = blake2b(repr(key).encode("utf-8", "backslashreplace"), digest_size=12)
    return f"nev_{digest.hexdigest()}"


class NormalizedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was said or done in a turn, whoever the provider is."""

    type: EventType
    original_index: int
    """Place among everything that the turn has, in order."""
    provider: str
    model: str = UNKNOWN_MODEL
    agent_name: str | None = None
    session_id: str | None = None
    message_id: str | None = None
    message_index: int | None = None
    """Place of the message among the messages."""
    block_index: int | None = None
    """Place of the block in its message."""
    candidate_index: int = 0
    """Which of several answers to the same question."""
    is_streaming: bool = False
    is_final: bool = True
    content: str | None = None
    tool_call: ToolCall | None = None
    tool_result: ToolResult | None = None
    approval: Approval | None = None
    citations: tuple[Citation, ...] = ()
    usage: Usage | None = None
    """On the last event of an answer, so that the sum over events is the sum over answers."""
    stop_reason: StopReason | None = None
    stop_reason_raw: str | None = None
    """The provider's word."""
    failure: Failure | None = None
    problems: tuple[Problem, ...] = ()
    raw: Any = None
    """What the provider sent for this, as data."""

    @property
    def event_id(self) -> str:
        """An id that is the same whenever the same thing is normalised again."""
        call, result = self.tool_call, self.tool_result
        about = call.id if call else result.call_id if result else self.content
        return event_id((self.session_id, self.message_id, self.original_index, self.type, about))

    @property
    def role(self) -> str:
        return ROLES[self.type]

    @property
    def persistence_strategy(self) -> PersistenceStrategy:
        return PERSISTENCE[self.type]


class StreamTimings(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream ran; seconds."""

    first_token_seconds: float | None
    duration_seconds: float
    longest_gap_seconds: float | None
    """Longest time without a token once there was one."""
    mean_gap_seconds: float | None
    token_chunks: int
    """Chunks that brought reasoning, text or parts of a tool call."""
    tokens_per_second: float | None
    """Output tokens over the time since the first; null where either is not known."""


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an answer while it comes."""

    type: StreamEventType
    provider: str
    timestamp: float
    """Seconds since 1970."""
    original_index: int
    """Place among the events of the stream."""
    block_index: int
    model: str = UNKNOWN_MODEL
    message_id: str | None = None
    is_streaming: bool = True
    is_final: bool = False
    content: str | None = None
    reasoning: str | None = None
    tool_call: ToolCall | None = None
    citation: Citation | None = None
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    stop_reason_raw: str | None = None
    failure: Failure | None = None
    timings: StreamTimings | None = None
    raw: Any = None
    """The chunk itself, as it came."""

    @property
    def role(self) -> str:
        return ROLES[self.type]

    @property
    def persistence_strategy(self) -> PersistenceStrategy:
        return PERSISTENCE[self.type]


class Normalized(msgspec.Struct, frozen=True, kw_only=True):
    """A whole turn, or one answer, in the canonical form."""

    events: tuple[NormalizedEvent, ...]
    provider: str
    model: str
    usage: Usage | None
    stop_reason: StopReason | None
    stop_reason_raw: str | None
    problems: tuple[Problem, ...]
    duplicate_tool_events: int = 0
    """Requests and results with an id that had been seen before, left out."""

    @property
    def text(self) -> str:
        """What the assistant said, without its thinking."""
        said = (event.content for event in self.events if event.type == "assistant_message")
        return "".join(part for part in said if part)
