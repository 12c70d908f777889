"""SQL for the tokens of model calls without a cost. Prices are applied at read time.

The tokens are a map from provider, model and token kind, separated by tabs, to a count.
"""

from typing import Final

from tracereel import semconv
from tracereel_collector.store.dialects.columns import kind_of
from tracereel_collector.store.dialects.names import DIRECT_KINDS
from tracereel_collector.store.dialects.own_columns import FRAGMENTS as TOLD

KINDS: Final = ("input", "cache_read", "cache_write", "output")
_MOST_TOKENS = 2**53
_MAX_MODEL = 256
NO_TOKENS: Final = "CAST(map(), 'Map(String, UInt64)')"


def _figure(column: str) -> str:
    return f"toInt64(least(ifNull({column}, 0), {_MOST_TOKENS}))"


def _by_kind(condition: str, provider: str, model: str, **tokens: str) -> str:
    """Return SQL for the tokens of one call if a condition holds, else empty."""
    name = f"concat({provider}, '\\t', left({model}, {_MAX_MODEL}), '\\t"
    pairs = ", ".join(f"{name}{kind}'), toUInt64(greatest({tokens[kind]}, 0))" for kind in KINDS)
    return f"if({condition}, mapFilter((k, n) -> n > 0, map({pairs})), {NO_TOKENS})"


_KIND = kind_of("lower(said_of_call.operation)")
_WITHOUT_OUTPUT = tuple(kind for kind in DIRECT_KINDS if kind != "llm")
_UNPRICED = _by_kind(
    f"""is_unpriced AND (said_of_call.operation = '' OR {_KIND} IN {DIRECT_KINDS!r})
            AND (isNotNull(llm_completion_tokens) OR {_KIND} IN {_WITHOUT_OUTPUT!r})""",
    TOLD["told_provider"],
    "if(llm_model = '', said_of_call.llm_model_requested, toString(llm_model))",
    # Cached tokens are part of the prompt, unless the sender counts them separately.
    input=f"""{_figure("llm_prompt_tokens")} - cached_tokens * toInt64(NOT (
            {_figure("llm_prompt_tokens")} < cached_tokens OR {_figure("llm_tokens_used")} =
            {_figure("llm_prompt_tokens")} + {_figure("llm_completion_tokens")} + cached_tokens))""",
    cache_read=_figure("said_of_call.llm_cached_tokens"),
    cache_write=_figure("said_of_call.llm_cache_creation_tokens"),
    output=_figure("llm_completion_tokens"),
)
UNPRICED_COLUMNS: Final = f"""
        event_type = '{semconv.LLM_CALLED}' AND isNull(llm_cost_usd) AND isNotNull(llm_prompt_tokens)
            AND {TOLD["told_closes"]} AS is_unpriced,
        JSONExtract(if(is_unpriced, payload, ''), 'Tuple(operation String, llm_model_requested String,
            llm_cached_tokens UInt64, llm_cache_creation_tokens UInt64)') AS said_of_call,
        {_figure("said_of_call.llm_cached_tokens")}
            + {_figure("said_of_call.llm_cache_creation_tokens")} AS cached_tokens,
        {_UNPRICED} AS unpriced,"""
"""SQL for columns of events. The last has the tokens of a call without a cost."""
UNPRICED_OF_SPANS: Final = _by_kind(
    "isNull(CostUsd) AND isNotNull(PromptTokens) AND (CallKind != 'llm' OR isNotNull(CompletionTokens))",
    "toString(Provider)",
    "toString(if(ModelServed = '', ModelRequested, ModelServed))",
    input=f"{_figure('PromptTokens')} - {_figure('CacheReadTokens')} - {_figure('CacheWriteTokens')}",
    cache_read=_figure("CacheReadTokens"),
    cache_write=_figure("CacheWriteTokens"),
    output=_figure("CompletionTokens"),
)
"""SQL for the same tokens of a span received over OTLP."""
