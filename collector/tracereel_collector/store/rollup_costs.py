"""SQL that sums up, per run, the tokens of model calls whose cost nobody sent: prices are added when asked.

A sum is a map: provider, model and kind of token, with tabs between, to how many there were.
"""

from typing import Final

from tracereel import semconv
from tracereel_collector.store.dialects.columns import kind_of
from tracereel_collector.store.dialects.names import DIRECT_KINDS
from tracereel_collector.store.dialects.own_columns import FRAGMENTS as TOLD
from tracereel_collector.store.rollups import (
    FROM_OTLP,
    MAX_TAG,
    event_summaries,
    in_reach,
    rounded_nano_usd,
    span_summaries,
)

KINDS: Final = ("input", "cache_read", "cache_write", "output")
_MOST_TOKENS = 2**53
_NONE = "CAST(map(), 'Map(String, UInt64)')"


def _figure(column: str) -> str:
    return f"toInt64(least(ifNull({column}, 0), {_MOST_TOKENS}))"


def _by_kind(condition: str, provider: str, model: str, **tokens: str) -> str:
    """SQL for the tokens of one call, where a condition holds; nothing where there are none."""
    name = f"concat({provider}, '\\t', left({model}, {MAX_TAG}), '\\t"
    pairs = ", ".join(f"{name}{kind}'), toUInt64(greatest({tokens[kind]}, 0))" for kind in KINDS)
    return f"if({condition}, mapFilter((k, n) -> n > 0, map({pairs})), {_NONE})"


_KIND = kind_of("lower(said_of_call.operation)")
_WITHOUT_OUTPUT = tuple(kind for kind in DIRECT_KINDS if kind != "llm")
_UNPRICED = _by_kind(
    f"""is_unpriced AND (said_of_call.operation = '' OR {_KIND} IN {DIRECT_KINDS!r})
            AND (isNotNull(llm_completion_tokens) OR {_KIND} IN {_WITHOUT_OUTPUT!r})""",
    TOLD["told_provider"],
    "if(llm_model = '', said_of_call.llm_model_requested, toString(llm_model))",
    # What was cached is part of the prompt, unless its sender counts it apart.
    input=f"""{_figure("llm_prompt_tokens")} - cached_tokens * toInt64(NOT (
            {_figure("llm_prompt_tokens")} < cached_tokens OR {_figure("llm_tokens_used")} =
            {_figure("llm_prompt_tokens")} + {_figure("llm_completion_tokens")} + cached_tokens))""",
    cache_read=_figure("said_of_call.llm_cached_tokens"),
    cache_write=_figure("said_of_call.llm_cache_write_tokens"),
    output=_figure("llm_completion_tokens"),
)
_MAY_BE = (
    f"event_type = '{semconv.LLM_CALLED}' AND isNull(llm_cost_usd) AND isNotNull(llm_prompt_tokens)"
)
UNPRICED_COLUMNS: Final = f"""
        {_MAY_BE}
            AND {TOLD["told_closes"]} AS is_unpriced,
        JSONExtract(if(is_unpriced, payload, ''), 'Tuple(operation String, llm_model_requested String,
            llm_cached_tokens UInt64, llm_cache_write_tokens UInt64)') AS said_of_call,
        {_figure("said_of_call.llm_cached_tokens")}
            + {_figure("said_of_call.llm_cache_write_tokens")} AS cached_tokens,
        {_UNPRICED} AS unpriced,"""
"""SQL for columns of events, the last of which has the tokens of a call whose cost nobody sent."""
UNPRICED_OF_SPANS: Final = _by_kind(
    "isNull(CostUsd) AND isNotNull(PromptTokens) AND (CallKind != 'llm' OR isNotNull(CompletionTokens))",
    "toString(Provider)",
    "toString(if(ModelServed = '', ModelRequested, ModelServed))",
    input=f"{_figure('PromptTokens')} - {_figure('CacheReadTokens')} - {_figure('CacheWriteTokens')}",
    cache_read=_figure("CacheReadTokens"),
    cache_write=_figure("CacheWriteTokens"),
    output=_figure("CompletionTokens"),
)
"""The same of a span that came over OTLP."""

FRAGMENTS: Final = {
    "event_summaries_with_costs": event_summaries(
        cost=rounded_nano_usd("llm_cost_usd"),
        sums=f""",
    sumMap(unpriced) AS call_unpriced,
    {_NONE} AS span_unpriced""",
        columns=UNPRICED_COLUMNS,
    ),
    "span_summaries_with_costs": span_summaries(
        cost=rounded_nano_usd("CostUsd"),
        sums=f""",
    {_NONE} AS call_unpriced,
    sumMap({UNPRICED_OF_SPANS}) AS span_unpriced""",
    ),
}
"""What the `.sql` files call `$name`."""

BACKFILL: Final = {
    "none": "CAST(map(), 'Map(String, Int64)')",
    "event_in_reach": in_reach("timestamp"),
    "span_in_reach": in_reach("Timestamp"),
    "may_be_unpriced": _MAY_BE,
    "unpriced_columns": UNPRICED_COLUMNS.strip(),
    "unpriced_of_spans": UNPRICED_OF_SPANS,
    "from_otlp": FROM_OTLP,
}
"""The same, for the statements that fill in what was stored before."""
