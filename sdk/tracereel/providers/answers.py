"""Intermediate form of a provider's response: its parts in order, and how it ended."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tracereel.providers.base import (
    Citation,
    EventType,
    Failure,
    NormalizedEvent,
    Problem,
    StopReason,
    ToolCall,
    ToolResult,
    Usage,
)
from tracereel.providers.reading import json_object


@dataclass(slots=True)
class AnswerPiece:
    """One block of a message, as the event that it becomes."""

    type: EventType
    block_index: int
    content: str | None = None
    tool_call: ToolCall | None = None
    tool_result: ToolResult | None = None
    citations: tuple[Citation, ...] = ()
    raw: Any = None


@dataclass(slots=True)
class Answer:
    """One message of a model, tool or person."""

    role: str
    """`assistant`, `user`, `tool` or `system`."""
    provider: str
    model: str | None = None
    message_id: str | None = None
    pieces: list[AnswerPiece] = field(default_factory=list)
    usage: Usage | None = None
    stop_word: str | None = None
    refusal: str | None = None
    """Refusal text of the model, or explanation of a content filter."""
    failure: Failure | None = None
    candidate_index: int = 0
    problems: list[Problem] = field(default_factory=list)
    agent_name: str | None = None
    forced_stop: StopReason | None = None
    """Stop reason that overrides the provider's."""
    events: Sequence[NormalizedEvent] | None = None
    """Events that an adapter made of the message; they replace the pieces."""

    def report(self, code: str, message: str, block_index: int | None, raw: Any) -> None:
        """Add a part that could not be read."""
        self.problems.append(Problem(code=code, message=message, block_index=block_index, raw=raw))

    def say(self, content: str, index: int, raw: Any, citations: tuple[Citation, ...] = ()) -> None:
        """Add a text."""
        kind: EventType = "user_message" if self.role == "user" else "assistant_message"
        self.pieces.append(AnswerPiece(kind, index, content, citations=citations, raw=raw))

    def think(self, content: str | None, index: int, raw: Any) -> None:
        """Add reasoning; it has no content if the provider encrypts it."""
        self.pieces.append(AnswerPiece("thinking", index, content, raw=raw))

    def request(
        self,
        index: int,
        *,
        identity: str | None,
        name: str,
        arguments: Any,
        raw: Any,
        at_provider: bool = False,
        provider_id: str | None = None,
    ) -> None:
        """Add a tool request; invalid arguments are kept as text and reported."""
        parsed, kept = json_object(arguments)
        if kept is not None:
            message = f"the arguments of {name[:80]!r} are no JSON object"
            self.report("malformed_tool_arguments", message, index, kept)
        call = ToolCall(
            id=identity or "",
            name=name,
            arguments=parsed,
            arguments_text=kept,
            runs_at_provider=at_provider,
            provider_id=provider_id,
        )
        self.pieces.append(AnswerPiece("tool_request", index, tool_call=call, raw=raw))

    def respond(
        self,
        index: int,
        *,
        identity: str | None,
        name: str | None,
        content: Any,
        shown: str | None,
        raw: Any,
        error: str | None = None,
        at_provider: bool = False,
    ) -> None:
        """Add a tool result, with the text to show; with an error it is a failure."""
        result = ToolResult(
            call_id=identity or "",
            name=name,
            content=content,
            success=error is None,
            error=error,
            runs_at_provider=at_provider,
        )
        piece = AnswerPiece("tool_response", index, shown, tool_result=result, raw=raw)
        self.pieces.append(piece)
