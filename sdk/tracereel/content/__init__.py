"""Content of a step: the messages of a model call, the values of a tool call, agent or pipeline.

One model for every source. Senders keep their own form; it is converted when it is read.
"""

from tracereel.content.model import (
    Content,
    ContentCut,
    Message,
    ModelCallContent,
    Part,
    PartType,
    TokenUsage,
    ToolCallContent,
    ToolDefinition,
    ValueContent,
)

__all__ = [
    "Content",
    "ContentCut",
    "Message",
    "ModelCallContent",
    "Part",
    "PartType",
    "TokenUsage",
    "ToolCallContent",
    "ToolDefinition",
    "ValueContent",
]
