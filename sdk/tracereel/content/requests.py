"""Tools, options and usage of a model call, in any provider's form."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tracereel.content.model import TokenUsage, ToolDefinition
from tracereel.content.reading import count, first, items, mapping, parsed, plain, text, word

MAX_TOOLS: Final = 2_000
"""Tool definitions of one call; more are left out."""
MAX_PARAMETERS: Final = 200
_CONTENT: Final = frozenset(
    {
        *("messages", "contents", "input", "prompt", "system", "instructions", "systemInstruction"),
        *("system_instruction", "tools", "functions", "model", "model_name", "modelId", "stream"),
        *("api_key", "extra_headers", "http_options", "httpOptions", "extra_body", "extra_query"),
        *(
            "id",
            "created_at",
            "created",
            "object",
            "status",
            "output",
            "usage",
            "error",
            "base_url",
        ),
        *("timeout", "tool_definitions", "user", "metadata", "_type", "contents_count"),
    }
)
"""Fields of a request that are no options."""
_NESTED: Final = ("generationConfig", "generation_config", "config", "invocation_params", "kwargs")
"""Objects of a request that have options."""
_NAMES: Final = {
    "maxOutputTokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_tokens_to_sample": "max_tokens",
    "maxTokens": "max_tokens",
    "topP": "top_p",
    "topK": "top_k",
    "stopSequences": "stop_sequences",
    "stop": "stop_sequences",
    "responseMimeType": "response_mime_type",
    "responseSchema": "response_format",
    "response_schema": "response_format",
    "toolChoice": "tool_choice",
    "frequencyPenalty": "frequency_penalty",
    "presencePenalty": "presence_penalty",
}
"""Options that several providers have, by their common name."""
_USAGE: Final[dict[str, tuple[str, ...]]] = {
    "input": (
        *("input_tokens", "prompt_tokens", "promptTokenCount", "prompt_token_count"),
        *("inputTokens", "promptTokens", "input"),
    ),
    "output": (
        *("output_tokens", "completion_tokens", "candidatesTokenCount", "candidates_token_count"),
        *("outputTokens", "completionTokens", "output"),
    ),
    "total": ("total_tokens", "totalTokenCount", "total_token_count", "totalTokens", "total"),
    "cache_read": (
        *("cache_read_input_tokens", "cached_tokens", "cachedContentTokenCount", "cache_read"),
        *("cached_content_token_count", "input_cached_tokens", "cachedInputTokens"),
    ),
    "cache_write": ("cache_creation_input_tokens", "cache_creation", "cache_write"),
    "reasoning": (
        *("reasoning_tokens", "thoughtsTokenCount", "thoughts_token_count", "reasoning"),
        "reasoningTokens",
    ),
}
_DETAILS: Final = (
    *("prompt_tokens_details", "completion_tokens_details", "input_tokens_details"),
    *("output_tokens_details", "input_token_details", "output_token_details"),
)


def tools_of(value: Any) -> tuple[ToolDefinition, ...]:
    """Return tool definitions of any form: a list, a request that has them, or JSON of these."""
    return tuple(_tools(parsed(value), 4))[:MAX_TOOLS]


def parameters_of(value: Any) -> dict[str, Any]:
    """Return the options of a request, by their common names such as `max_tokens`."""
    found: dict[str, Any] = {}
    _add_parameters(found, parsed(value), 3)
    return found


def usage_of_response(value: Any) -> TokenUsage:
    """Return the tokens in a usage object, as a provider counts them."""
    fields = mapping(parsed(value))
    counts = {name: _counted(fields, names) for name, names in _USAGE.items()}
    for place in _DETAILS:
        details = mapping(fields.get(place))
        for name in ("cache_read", "cache_write", "reasoning"):
            if counts[name] is None:
                counts[name] = _counted(details, _USAGE[name])
    return TokenUsage(**counts)


def _counted(fields: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((found for name in names if (found := count(fields.get(name))) is not None), None)


def _tools(value: Any, depth: int) -> Iterator[ToolDefinition]:
    for each in items(value)[:MAX_TOOLS]:
        yield from _tool(parsed(each), depth)
    if fields := mapping(value):
        inner = first(fields, "tools", "functions", "tool_definitions")
        if inner is None:
            inner = mapping(first(fields, "config", "generationConfig")).get("tools")
        if inner is not None and depth > 0:
            yield from _tools(parsed(inner), depth - 1)
        elif inner is None and ("name" in fields or "function" in fields):
            yield from _tool(fields, depth)
        elif inner is None and depth > 0:
            yield from _by_name(fields)


def _by_name(fields: Mapping[str, Any]) -> Iterator[ToolDefinition]:
    """Yield tools of an object that has them by their names."""
    for name, each in list(fields.items())[:MAX_TOOLS]:
        about = mapping(each)
        if isinstance(name, str) and not about.keys().isdisjoint({"description", "inputSchema"}):
            yield from _tool({"name": name, **about}, 0)


def _tool(value: Any, depth: int) -> Iterator[ToolDefinition]:
    fields = mapping(value)
    if not fields:
        return
    declared = first(fields, "functionDeclarations", "function_declarations")
    if declared is not None:  # Google's tools hold several functions
        for each in items(parsed(declared))[:MAX_TOOLS] if depth > 0 else ():
            yield from _tool(each, depth - 1)
        return
    wrapped = mapping(fields.get("tool"))  # OpenInference: tool.json_schema
    schema = mapping(parsed(first(wrapped, "json_schema")))
    if schema and depth > 0:
        yield from _tool(schema, depth - 1)
        return
    function = mapping(first(fields, "function", "custom", "toolSpec")) or fields
    kind = word(fields.get("type"))
    name = word(first(function, "name", "tool_name")) or word(fields.get("name"))
    if name is None:
        # A tool of the provider is named by its type, Google's by its only key.
        name = kind or (word(next(iter(fields))) if len(fields) == 1 else None)
    described = first(function, "description", "tool_description")
    parameters = first(
        function,
        *("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "json_schema"),
        *("parameters_json_schema", "args_schema", "format"),
    )
    if name is not None:
        yield ToolDefinition(
            name=name,
            description=text(described) if isinstance(described, str) and described else None,
            parameters=plain(parsed(parameters)),
            type=kind,
        )


def _add_parameters(found: dict[str, Any], value: Any, depth: int) -> None:
    for name, each in list(mapping(value).items())[: MAX_PARAMETERS * 2]:
        if not isinstance(name, str) or name in _CONTENT or each is None or each in ([], {}, ""):
            continue
        if name in _NESTED and isinstance(each, dict) and depth > 0:
            _add_parameters(found, each, depth - 1)
        elif len(found) < MAX_PARAMETERS:
            found.setdefault(_NAMES.get(name, text(name)), plain(parsed(each)))
