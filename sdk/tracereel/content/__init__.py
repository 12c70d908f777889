"""Content of a step: the messages of a model call, the values of a tool call, agent or pipeline.

One model for every source. Senders keep their own form; it is converted when it is read.
"""

from tracereel.content.asking import answered, asked, text_of
from tracereel.content.messages import ConvertedMessages, conversation, messages_of
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
from tracereel.content.requests import parameters_of, tools_of, usage_of_response
from tracereel.content.states import State, state_of

__all__ = [
    "Content",
    "ContentCut",
    "ConvertedMessages",
    "Message",
    "ModelCallContent",
    "Part",
    "PartType",
    "State",
    "TokenUsage",
    "ToolCallContent",
    "ToolDefinition",
    "ValueContent",
    "answered",
    "asked",
    "conversation",
    "messages_of",
    "parameters_of",
    "state_of",
    "text_of",
    "tools_of",
    "usage_of_response",
]
