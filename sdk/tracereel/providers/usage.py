"""Reader of token usage in the formats of all providers and frameworks."""

from typing import Any, Final

from tracereel.providers.base import Usage
from tracereel.providers.reading import count, mapping

PLACES: Final[tuple[tuple[str, ...], ...]] = (
    ("response_metadata", "usage"),
    ("usage_metadata",),
    ("response_metadata", "token_usage"),
    ("response_metadata", "usage_metadata"),
    ("response_metadata", "amazon-bedrock-invocationMetrics"),
    ("usage",),
    ("usageMetadata",),
    ("token_usage",),
    ("llm_output", "token_usage"),
    ("llm_output", "usage"),
    ("generation_info", "token_usage"),
    ("generation_info", "usage_metadata"),
    ("additional_kwargs", "usage"),
)
"""Locations of usage, in order; later ones only fill missing values."""

_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "input": (
        *("input_tokens", "prompt_tokens", "promptTokenCount", "prompt_token_count"),
        *("inputTokens", "inputTokenCount", "total_input_tokens"),
    ),
    "output": (
        *("output_tokens", "completion_tokens", "candidatesTokenCount", "candidates_token_count"),
        *("outputTokens", "outputTokenCount", "total_output_tokens"),
    ),
    "cache_read": (
        *("cache_read_input_tokens", "cacheReadInputTokens", "cacheReadInputTokenCount"),
        "cacheReadInputTokensCount",
    ),
    "cache_written": (
        *("cache_creation_input_tokens", "cacheWriteInputTokens", "cacheWriteInputTokenCount"),
        "cacheWriteInputTokensCount",
    ),
    "thoughts": ("thoughtsTokenCount", "thoughts_token_count", "total_thought_tokens"),
    "tool_prompt": ("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
    "cached_content": (
        *("cachedContentTokenCount", "cached_content_token_count", "total_cached_tokens"),
    ),
}
"""Count → its field names, by precedence.

The input does not include `cache_read` and `cache_written` (Anthropic, Bedrock).
"""
_MEANINGS: Final = {name: meaning for meaning, names in _FIELDS.items() for name in names}
_PRECEDENCE: Final = {name: place for place, name in enumerate(_MEANINGS)}
_REQUIRED: Final = frozenset({"input", "output", "cache_read", "cache_written", "thoughts"})
"""Counts of which a usage has at least one."""
_INPUT_DETAILS: Final = ("input_token_details", "input_tokens_details", "prompt_tokens_details")
_OUTPUT_DETAILS: Final = (
    *("output_token_details", "output_tokens_details", "completion_tokens_details"),
)


def usage_of(message: Any) -> Usage | None:
    """Return the usage of a message or response, or `None` if it has none."""
    found: Usage | None = None
    given = mapping(message)
    for place in [each for each in PLACES if each[0] in given]:
        value = given[place[0]]
        for name in place[1:]:
            value = mapping(value).get(name)
        if value is None:
            continue
        usage = read_usage(value)
        if usage is not None:
            found = usage if found is None else _completed(found, usage)
    return found


def read_usage(value: Any) -> Usage | None:
    """Read one usage object of any provider; return `None` if it has no counts."""
    if not isinstance(value, dict):
        return None
    counts: dict[str, int] = {}
    for name in sorted(_PRECEDENCE.keys() & value.keys(), key=_PRECEDENCE.__getitem__):
        if (found := count(value[name])) is not None:
            counts.setdefault(_MEANINGS[name], found)
    if _REQUIRED.isdisjoint(counts):
        return None
    known = counts.get
    inside_in, inside_out = _details(value, _INPUT_DETAILS), _details(value, _OUTPUT_DETAILS)
    total_in = known("input", 0) + known("tool_prompt", 0)
    if not inside_in:  # LangChain's details mean that its input already includes cached tokens
        total_in += known("cache_read", 0) + known("cache_written", 0)
    cached = known("cache_read", known("cached_content"))
    created = _first(inside_in, ("cache_creation", "cache_write_tokens"))
    reasoning = _first(inside_out, ("reasoning", "reasoning_tokens", "thinking_tokens"))
    return Usage(
        input_tokens=total_in,
        output_tokens=known("output", 0) + known("thoughts", 0),
        cached_tokens=_either(cached, _first(inside_in, ("cache_read", "cached_tokens"))),
        cache_creation_tokens=known("cache_written", created),
        reasoning_tokens=known("thoughts", reasoning),
    )


def _details(value: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    for name in names:
        if found := value.get(name):
            return mapping(found)
    return {}


def _first(value: dict[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        given = value.get(name)
        if given is not None and (found := count(given)) is not None:
            return found
    return None


def _either(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def _completed(first: Usage, second: Usage) -> Usage:
    return Usage(
        input_tokens=first.input_tokens or second.input_tokens,
        output_tokens=first.output_tokens or second.output_tokens,
        cached_tokens=_either(first.cached_tokens, second.cached_tokens),
        cache_creation_tokens=_either(first.cache_creation_tokens, second.cache_creation_tokens),
        reasoning_tokens=_either(first.reasoning_tokens, second.reasoning_tokens),
    )
