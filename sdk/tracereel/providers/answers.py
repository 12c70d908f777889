"""Intermediate form of a provider's response: its parts in order, and how it ended."""

from dataclasses import dataclass, field
from typing import Any

from tracereel.providers.base import (
    Citation,
    EventType,
    Failure,
    Problem,
    StopReason,
    ToolCall,
    ToolResult,
    Usage,
)


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

    def report(self, code: str, message: str, block_index: int | None, raw: Any) -> None:
        self.problems.append(Problem(code=code, message=message, block_index=block_index, raw=raw))
