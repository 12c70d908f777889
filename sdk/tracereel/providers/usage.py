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

_TOP: Final = frozenset(place[0] for place in PLACES)
_USAGE: Final = frozenset({"usage"})

_INPUT: Final = (
    *("input_tokens", "prompt_tokens", "promptTokenCount", "prompt_token_count"),
    *("inputTokens", "inputTokenCount"),
)
_OUTPUT: Final = (
    *("output_tokens", "completion_tokens", "candidatesTokenCount", "candidates_token_count"),
    *("outputTokens", "outputTokenCount"),
)
_BESIDE_READ: Final = (
    *("cache_read_input_tokens", "cacheReadInputTokens", "cacheReadInputTokenCount"),
    "cacheReadInputTokensCount",
)
_BESIDE_WRITTEN: Final = (
    *("cache_creation_input_tokens", "cacheWriteInputTokens", "cacheWriteInputTokenCount"),
    "cacheWriteInputTokensCount",
)
"""Cached input tokens that the provider does not include in its input (Anthropic, Bedrock)."""
_WITHIN_READ: Final = ("cachedContentTokenCount", "cached_content_token_count")
_DETAILS_IN: Final = ("input_token_details", "input_tokens_details", "prompt_tokens_details")
_DETAILS_OUT: Final = ("output_token_details", "output_tokens_details", "completion_tokens_details")
DETAILS: Final = frozenset((*_DETAILS_IN, *_DETAILS_OUT))
_THOUGHTS: Final = ("thoughtsTokenCount", "thoughts_token_count")
_TOOL_PROMPT: Final = ("toolUsePromptTokenCount", "tool_use_prompt_token_count")
MEANINGS: Final[dict[str, tuple[str, int]]] = {
    name: (meaning, rank)
    for meaning, names in (
        ("input", _INPUT),
        ("output", _OUTPUT),
        ("read", _BESIDE_READ),
        ("written", _BESIDE_WRITTEN),
        ("thoughts", _THOUGHTS),
        ("tool_prompt", _TOOL_PROMPT),
        ("within", _WITHIN_READ),
    )
    for rank, name in enumerate(names)
}
"""Field name → its meaning and precedence."""
_TOO_MUCH: Final = 2**63
_MAX_SHAPES: Final = 256
_shapes: Final[dict[tuple[Any, ...], tuple[tuple[str, str], ...]]] = {}
_TELLING: Final = frozenset({"input", "output", "read", "written", "thoughts"})


def usage_of(message: Any) -> Usage | None:
    """Return the usage of a message or response, or `None` if it has none."""
    found: Usage | None = None
    said = mapping(message)
    places = said.keys() & _TOP
    if len(places) <= 1 and places <= _USAGE:  # where providers themselves put it
        return read_usage(said["usage"]) if places else None
    for place in PLACES:
        if (value := said.get(place[0])) is None:
            continue
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
    for name, meaning in _shape(tuple(value)):
        given = value[name]
        if given is None or meaning in counts:
            continue
        number = given if type(given) is int and 0 <= given < _TOO_MUCH else count(given)
        if number is not None:
            counts[meaning] = number
    if _TELLING.isdisjoint(counts):
        return None
    told = counts.get
    read, written, thoughts = told("read"), told("written"), told("thoughts")
    total_in = told("input", 0) + told("tool_prompt", 0)
    inside_in: dict[str, Any] = {}
    inside_out: dict[str, Any] = {}
    if not DETAILS.isdisjoint(value):
        inside_in, inside_out = _details(value, _DETAILS_IN), _details(value, _DETAILS_OUT)
    if not inside_in:  # LangChain's details mean that its input already includes cached tokens
        total_in += (read or 0) + (written or 0)
    if read is None:
        read = told("within")
    if inside_in:
        read = _either(read, _first(inside_in, ("cache_read", "cached_tokens")))
        written = _either(written, _first(inside_in, ("cache_creation", "cache_write_tokens")))
    reasoning = thoughts
    if inside_out and thoughts is None:
        names = ("reasoning", "reasoning_tokens", "thinking_tokens")
        reasoning = _first(inside_out, names)
    return Usage(
        input_tokens=total_in,
        output_tokens=told("output", 0) + (thoughts or 0),
        cached_tokens=read,
        cache_creation_tokens=written,
        reasoning_tokens=reasoning,
    )


def _shape(names: tuple[Any, ...]) -> tuple[tuple[str, str], ...]:
    """Return the usage fields and their meanings by precedence, cached by field names."""
    found = _shapes.get(names)
    if found is None:
        known = [name for name in names if name in MEANINGS]
        known.sort(key=lambda name: MEANINGS[name][1])
        found = tuple((name, MEANINGS[name][0]) for name in known)
        if len(_shapes) >= _MAX_SHAPES:
            _shapes.clear()
        _shapes[names] = found
    return found


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
