"""Table of attribute names that hold the content of a span, by meaning, the best form first.

Content stays in the attributes: it is large, opt-in, and read one call or trace at a time. The API
rebuilds it in Python (`query/content`), the view `otel_content` in SQL (`content_sql.py`).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Numbered(NamedTuple):
    """Dialect that spreads a list over numbered attributes."""

    prefix: str
    paths: Mapping[str, str] = {}
    """Rest of the attribute names by meaning; `%` is the number of a part or call."""


_OPENINFERENCE: Final = {
    "role": ".message.role",
    "content": ".message.content",
    "part_text": ".message.contents.%.message_content.text",
    "call_id": ".message.tool_calls.%.tool_call.id",
    "call_name": ".message.tool_calls.%.tool_call.function.name",
    "call_arguments": ".message.tool_calls.%.tool_call.function.arguments",
    "answers": ".message.tool_call_id",
}
_OPENLLMETRY: Final = {
    "role": ".role",
    "content": ".content",
    "part_text": ".parts.%.text",
    "call_id": ".tool_calls.%.id",
    "call_name": ".tool_calls.%.name",
    "call_arguments": ".tool_calls.%.arguments",
    "answers": ".tool_call_id",
}
INPUT: Final[tuple[str | Numbered, ...]] = (
    "gen_ai.input.messages",
    Numbered("llm.input_messages.", _OPENINFERENCE),
    Numbered("gen_ai.prompt.", _OPENLLMETRY),
    "ai.prompt.messages",
    "ai.prompt",
    "langfuse.observation.input",
    "request_data",
    "gen_ai.prompt",
    "traceloop.entity.input",
    "mlflow.spanInputs",
    "lmnr.span.input",
    "gcp.vertex.agent.llm_request",
    "input.value",
)
OUTPUT: Final[tuple[str | Numbered, ...]] = (
    "gen_ai.output.messages",
    Numbered("llm.output_messages.", _OPENINFERENCE),
    Numbered("gen_ai.completion.", _OPENLLMETRY),
    "langfuse.observation.output",
    "response_data",
    "gen_ai.completion",
    "traceloop.entity.output",
    "mlflow.spanOutputs",
    "lmnr.span.output",
    "gcp.vertex.agent.llm_response",
    "output.value",
)
"""Attributes with messages."""

BOTH: Final = (
    "events",
    "all_messages_events",
    "pydantic_ai.all_messages",
)
"""Attributes with the messages of both sides in one list (Logfire, pydantic-ai)."""
OTHER_INPUT: Final = (Numbered("llm.prompts."), "raw_input", "gen_ai.content.prompt")
OTHER_OUTPUT: Final = (
    *(Numbered("llm.choices."), "ai.response.object", "response", "gen_ai.content.completion"),
    "final_result",
)
"""Attributes with messages that the SQL view does not read; tried last."""
SYSTEM: Final = ("gen_ai.system_instructions",)
ANSWER_TEXT: Final = ("ai.response.text", "ai.result.text")
ANSWER_THINKING: Final = ("ai.response.reasoning", "gen_ai.content.reasoning")
ANSWER_CALLS: Final = ("ai.response.toolCalls", "ai.result.toolCalls")
"""Answer of the Vercel AI SDK: text, reasoning and tool calls are attributes of their own."""

EVENT_ROLES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Messages as span events or log records (before OpenTelemetry 1.37)."""
CHOICE_EVENTS: Final = ("gen_ai.choice", "gen_ai.content.completion")
PROMPT_EVENT: Final = "gen_ai.content.prompt"
DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"
"""Event whose attributes are those of a model call."""
FIRST_TOKEN_EVENTS: Final = (
    *("First Token Stream Event", "gen_ai.content.completion.chunk"),
    *("llm.content.completion.chunk", "ai.stream.firstChunk", "mlflow.chunk.item.0"),
)
"""Span events at the first part of a streamed answer."""

TOOLS: Final[tuple[str | Numbered, ...]] = (
    "gen_ai.tool.definitions",
    Numbered("llm.tools."),
    Numbered("llm.request.functions."),
    "ai.prompt.tools",
    "mlflow.chat.tools",
    "model_request_parameters",
    "request_data",
    "gcp.vertex.agent.llm_request",
    "langfuse.observation.input",
    "llm.invocation_parameters",
    "input.value",
)
"""Attributes with the tools that were offered, or with a request that has them."""
PARAMETERS: Final = (
    *("llm.invocation_parameters", "langfuse.observation.model.parameters", "request_data"),
    *("gcp.vertex.agent.llm_request", "mlflow.spanInputs"),
)
"""Attributes with request options as an object."""
USAGE_DETAILS: Final = ("gen_ai.usage.input_token_details", "gen_ai.usage.output_token_details")
"""Parts of the usage as objects (LangSmith)."""
PARAMETER_PREFIXES: Final = ("gen_ai.request.", "gen_ai.openai.request.", "ai.settings.")
"""Prefixes of attributes that are one request option each."""

ARGUMENTS: Final = (
    "gen_ai.tool.call.arguments",
    "tool.parameters",
    "tool_call.function.arguments",
    "ai.toolCall.args",
    "gcp.vertex.agent.tool_call_args",
)
OTHER_ARGUMENTS: Final = ("ai.toolCall.input", "tool_arguments")
MAYBE_SCHEMA: Final = "tool.parameters"
"""Arguments of a call for some clients of OpenInference; for others the tool's JSON Schema."""
RESULT: Final = (
    "gen_ai.tool.call.result",
    "ai.toolCall.result",
    "gcp.vertex.agent.tool_response",
)
OTHER_RESULT: Final = ("ai.toolCall.output", "tool_response")
WHOLE_INPUT: Final = ("input.value", "traceloop.entity.input", "langfuse.observation.input")
WHOLE_OUTPUT: Final = ("output.value", "traceloop.entity.output", "langfuse.observation.output")
"""Fallbacks for a tool: its whole input as arguments and its whole output as result."""
OTHER_WHOLE_INPUT: Final = (
    *("lmnr.span.input", "mlflow.spanInputs", "gen_ai.prompt", "ai.prompt", "gen_ai.task.input"),
    *("mcp.request.argument", "gen_ai.retrieval.query.text", "gen_ai.memory.query.text", "input"),
    *("db.query.text", "reranker.query", "langfuse.trace.input", "gcp.vertex.agent.data"),
)
OTHER_WHOLE_OUTPUT: Final = (
    *("lmnr.span.output", "mlflow.spanOutputs", "gen_ai.completion", "ai.response.text"),
    *("ai.response.object", "gen_ai.task.output", "mcp.response.value", "final_result"),
    *("gen_ai.retrieval.documents", "gen_ai.memory.records", "output", "response"),
    "langfuse.trace.output",
)
DOCUMENTS: Final = (Numbered("retrieval.documents."), Numbered("reranker.output_documents."))
"""Output of a retrieval in numbered attributes."""
