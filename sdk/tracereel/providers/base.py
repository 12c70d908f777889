"""Canonical events for the responses and streams of all providers."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, Literal, TypeVar

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

_KINDS: Final[dict[str, tuple[str, PersistenceStrategy]]] = {
    "session_start": ("system", "transient"),
    "user_message": ("user", "sync"),
    "thinking": ("assistant", "transient"),
    "tool_request": ("assistant", "async"),
    "tool_response": ("tool", "async"),
    "assistant_message": ("assistant", "sync"),
    "error": ("system", "transient"),
    "complete": ("system", "transient"),
    "approval_requested": ("system", "sync"),
    "approval_resolved": ("user", "sync"),
    "turn_paused": ("assistant", "sync"),
    "content_refused": ("assistant", "sync"),
    "stream_start": ("system", "transient"),
    "reasoning_delta": ("assistant", "transient"),
    "content_delta": ("assistant", "transient"),
    "tool_call": ("assistant", "transient"),
    "citation": ("assistant", "transient"),
    "usage": ("system", "transient"),
    "stream_end": ("system", "transient"),
}
ROLES: Final = {kind: role for kind, (role, _) in _KINDS.items()}
"""Event type → role of its author."""
PERSISTENCE: Final = {kind: strategy for kind, (_, strategy) in _KINDS.items()}
"""Event type → when a message store keeps it: at once, later, or never."""

AddableT = TypeVar("AddableT", int, "Usage")


def sum_known(left: AddableT | None, right: AddableT | None) -> AddableT | None:
    """Add two numbers or usages; a missing one does not count."""
    return left if right is None else right if left is None else left + right


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one response; input includes cached tokens, output includes reasoning."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int | None = None
    """Input tokens read from the provider's cache."""
    cache_creation_tokens: int | None = None
    """Input tokens written to the provider's cache."""
    reasoning_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=sum_known(self.cached_tokens, other.cached_tokens),
            cache_creation_tokens=sum_known(
                self.cache_creation_tokens, other.cache_creation_tokens
            ),
            reasoning_tokens=sum_known(self.reasoning_tokens, other.reasoning_tokens),
        )


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """Tool call requested by a model."""

    id: str
    """Id that results refer to; the framework's, if there is one."""
    name: str
    arguments: dict[str, Any]
    provider_id: str | None = None
    """Id of the provider, if it is different."""
    arguments_text: str | None = None
    """Original arguments, if they are not a JSON object."""
    runs_at_provider: bool = False


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a tool call."""

    call_id: str
    name: str | None
    content: Any
    success: bool
    error: str | None = None
    provider_id: str | None = None
    runs_at_provider: bool = False


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """Range in a source or response.

    `unit` is `char`, `page` or `block` in the source, or `answer_char` or `answer_byte` in the
    response.
    """

    start: int
    end: int
    unit: str = "char"


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """Source that a response cites."""

    text: str
    source: str
    title: str | None = None
    document_index: int | None = None
    location: Location | None = None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Error instead of a response, or in the middle of one."""

    type: str
    message: str
    code: str | None = None


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """Question to a person, or its resolution; times are seconds since 1970."""

    id: str
    tool_name: str | None = None
    question: Any = None
    approved: bool | None = None
    requested_at: float | None = None
    resolved_at: float | None = None

    @property
    def waited_seconds(self) -> float | None:
        """Seconds from question to resolution, or `None` if one is unknown."""
        if self.requested_at is None or self.resolved_at is None:
            return None
        return max(0.0, self.resolved_at - self.requested_at)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Part of the input that could not be read and was skipped."""

    code: str
    message: str
    message_index: int | None = None
    block_index: int | None = None
    raw: Any = None


class StreamTimings(msgspec.Struct, frozen=True, kw_only=True):
    """Timings of a stream in seconds."""

    first_token_seconds: float | None
    duration_seconds: float
    longest_gap_seconds: float | None
    """Longest time between two tokens."""
    mean_gap_seconds: float | None
    token_chunks: int
    """Chunks with reasoning, text or parts of a tool call."""
    tokens_per_second: float | None
    """Output tokens divided by the time since the first token; `None` if unknown."""


class CanonicalEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of all events, independent of the provider."""

    type: str
    provider: str
    original_index: int
    """Position among all events of the turn or stream."""
    model: str = UNKNOWN_MODEL
    message_id: str | None = None
    block_index: int | None = None
    """Index of the block in its message."""
    is_streaming: bool = False
    is_final: bool = True
    content: str | None = None
    tool_call: ToolCall | None = None
    usage: Usage | None = None
    """Set on the last event of a response, so that sums over events are correct."""
    stop_reason: StopReason | None = None
    stop_reason_raw: str | None = None
    """Stop reason of the provider."""
    failure: Failure | None = None
    raw: Any = None
    """Original data or chunk from the provider."""

    @property
    def role(self) -> str:
        """Role of the author."""
        return ROLES[self.type]

    @property
    def persistence_strategy(self) -> PersistenceStrategy:
        """When a message store keeps the event."""
        return PERSISTENCE[self.type]


class NormalizedEvent(CanonicalEvent, frozen=True, kw_only=True):
    """One event of a turn."""

    type: EventType
    agent_name: str | None = None
    session_id: str | None = None
    message_index: int | None = None
    """Index of the message."""
    candidate_index: int = 0
    """Index among alternative responses to the same request."""
    tool_result: ToolResult | None = None
    approval: Approval | None = None
    citations: tuple[Citation, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def event_id(self) -> str:
        """Deterministic id: the same input always gets the same id."""
        call, result = self.tool_call, self.tool_result
        about = call.id if call else result.call_id if result else self.content
        key = (self.session_id, self.message_id, self.original_index, self.type, about)
        digest = blake2b(repr(key).encode("utf-8", "backslashreplace"), digest_size=12)
        return f"nev_{digest.hexdigest()}"


class StreamEvent(CanonicalEvent, frozen=True, kw_only=True):
    """One event of a stream."""

    type: StreamEventType
    timestamp: float
    """Seconds since 1970."""
    block_index: int
    is_streaming: bool = True
    is_final: bool = False
    reasoning: str | None = None
    citation: Citation | None = None
    timings: StreamTimings | None = None


class Normalized(msgspec.Struct, frozen=True, kw_only=True):
    """A whole turn, or one response, in canonical form."""

    events: tuple[NormalizedEvent, ...]
    provider: str
    model: str
    usage: Usage | None
    stop_reason: StopReason | None
    stop_reason_raw: str | None
    problems: tuple[Problem, ...]
    duplicate_tool_events: int = 0
    """Number of dropped tool requests and results with repeated ids."""

    def __iter__(self) -> Iterator[NormalizedEvent]:
        return iter(self.events)

    @property
    def text(self) -> str:
        """Text of the assistant, without its reasoning."""
        texts = (event.content for event in self.events if event.type == "assistant_message")
        return "".join(part for part in texts if part)
