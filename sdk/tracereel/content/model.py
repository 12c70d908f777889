"""Content model: what the API returns and what the page, the command line and comparisons read."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

PartType = Literal[
    "text",
    "thinking",
    "tool_call",
    "tool_result",
    "image",
    "audio",
    "video",
    "file",
    "citation",
    "refusal",
    "data",
]
"""`data` is a part of a type that is not known here; `value` has it unchanged."""

Count = Annotated[int, Field(ge=0)]


class _Frozen(BaseModel):
    # A client may be older than its collector: fields that it does not know are left out.
    model_config = ConfigDict(frozen=True, extra="ignore")


class ContentCut(_Frozen):
    """Removed part of a value that was longer than the limit."""

    length: Count
    """Whole length: characters of a text, messages of a list."""
    removed: Count
    """How much of it was removed, from the middle."""
    at: Count | None = None
    """How much stands before the removed part; None if several parts were removed."""


class Part(_Frozen):
    """One piece of a message."""

    type: PartType
    text: str | None = None
    """Text, thinking, refusal, quoted passage of a citation, or caption of a file."""
    id: str | None = None
    """Id of the tool call; a result has the id of its call."""
    name: str | None = None
    """Name of the tool, or of the file."""
    value: Any = None
    """Arguments of a tool call, result of a tool, or data of an unknown type."""
    is_error: bool | None = None
    """Whether the tool failed."""
    media_type: str | None = None
    data: str | None = None
    """Base64 of an image, audio or file that was sent inline."""
    uri: str | None = None
    """Address of a file or source; shown, never fetched."""
    size: Count | None = None
    """Bytes of a file, if known."""
    cut: ContentCut | None = None


class Message(_Frozen):
    """One message to or from a model."""

    role: str
    """`system`, `developer`, `user`, `assistant` or `tool`; other roles as sent."""
    parts: tuple[Part, ...] = ()
    name: str | None = None
    id: str | None = None
    finish_reason: str | None = None


class ToolDefinition(_Frozen):
    """Tool that was offered to the model."""

    name: str
    description: str | None = None
    parameters: Any = None
    """JSON Schema of the arguments."""
    type: str | None = None


class TokenUsage(_Frozen):
    """Tokens of a model call. `input` includes the cached ones, `output` those of reasoning."""

    input: Count | None = None
    output: Count | None = None
    total: Count | None = None
    cache_read: Count | None = None
    cache_write: Count | None = None
    reasoning: Count | None = None


class ModelCallContent(_Frozen):
    """Content of a model call."""

    kind: Literal["model"] = "model"
    input: tuple[Message, ...] = ()
    output: tuple[Message, ...] = ()
    earlier: Count = 0
    """Leading messages of `input` that are the previous call's input and output of the same run."""
    earlier_step: str | None = None
    """Step id of that previous call."""
    tools: tuple[ToolDefinition, ...] = ()
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Request options: `temperature`, `max_tokens`, `response_format` …"""
    model: str | None = None
    provider: str | None = None
    finish_reason: str | None = None
    usage: TokenUsage = TokenUsage()
    first_token_ms: float | None = None
    tokens_per_second: float | None = None
    cut: ContentCut | None = None
    """Messages that were removed from the middle of `input`."""
    omitted: Literal[True] | None = None
    """Whether content was not stored yet, or too much for one answer: read it again."""


class ToolCallContent(_Frozen):
    """Content of a tool call."""

    kind: Literal["tool"] = "tool"
    name: str | None = None
    id: str | None = None
    arguments: Any = None
    result: Any = None
    cut: ContentCut | None = None
    omitted: Literal[True] | None = None
    """Whether content was not stored yet, or too much for one answer: read it again."""


class ValueContent(_Frozen):
    """Content of an agent, pipeline, graph, retrieval or step."""

    kind: Literal["value"] = "value"
    input: Any = None
    output: Any = None
    asked: str | None = None
    """The last question in the input: text of the last user message, the prompt, or the text itself."""
    answered: str | None = None
    """The last answer in the output."""
    input_messages: tuple[Message, ...] = ()
    """The input as a conversation, if it is one: the state of a graph, the history of an agent."""
    output_messages: tuple[Message, ...] = ()
    """The output as a conversation, if it is one; what it has of the input comes first."""
    cut: ContentCut | None = None
    omitted: Literal[True] | None = None
    """Whether content was not stored yet, or too much for one answer: read it again."""


Content = Annotated[ModelCallContent | ToolCallContent | ValueContent, Field(discriminator="kind")]
