"""SQL of the run rollup for lists, searches and costs.

It runs in every insert: it must not throw and must not read the clock.
Prices are applied at read time. The tokens of calls without a cost are a map from provider, model and
token kind, separated by tabs, to a count. The kind ends in a digit: how many of the thresholds of prices
the prompt of the call exceeds.
"""

from collections.abc import Mapping
from typing import Final

from tracereel import semconv
from tracereel_collector.store import search_texts
from tracereel_collector.store.dialects.columns import array, provider_of
from tracereel_collector.store.dialects.names import DIRECT_KINDS
from tracereel_collector.store.dialects.names import KINDS as OPERATIONS
from tracereel_collector.store.dialects.own import CLOSES
from tracereel_collector.store.price_rows import THRESHOLDS
from tracereel_collector.store.template import rendered

TAG_KINDS: Final = (
    *("agent", "pipeline", "model", "provider", "service", "session", "user"),
    *("error", "category", "code"),
)
"""Kinds of tags by which runs are found; also the names of the facets."""
MAX_TAG: Final = 256
MAX_PROMPT: Final = 300

CLOSING = (semconv.EXECUTION_COMPLETED, semconv.EXECUTION_FAILED, semconv.EXECUTION_CANCELLED)
MAX_DURATION_MS: Final = 31_536_000_000
"""Longest reported duration from which the beginning of a call is calculated: a year."""
OWN_SCOPE: Final = "tracereel"
"""Instrumentation scope of the spans of the SDK."""
ATTEMPTS: Final = ("attempt", "retry", "fallback")
"""Types of steps around attempts; their failure is that of the steps inside."""
OPERATION: Final = f"^({semconv.EXECUTE_TOOL}|step|retrieval) "
"""Pattern of the word before the name in the name of a call's span."""
KINDS: Final = ("input", "cache_read", "cache_write", "output")
_MOST_TOKENS = 2**53
_MAX_MODEL = 256
NO_TOKENS: Final = "CAST(map(), 'Map(String, UInt64)')"


def _tags(**values: str) -> str:
    made = ", ".join(
        f"if({value} = '', '', concat('{kind}:', left({value}, {MAX_TAG})))"
        for kind, value in values.items()
    )
    return f"groupUniqArrayArray(200)(arrayFilter(t -> t != '', [{made}]))"


def nano_usd(cost: str) -> str:
    """Return SQL for dollars as integer nanodollars, whose sums do not depend on the order."""
    bounded = f"greatest(-1e6, least(1e6, ifNull({cost}, 0)))"
    # Rounded, because 0.0000157 * 1e9 is slightly less than 15700.
    return f"toInt64(round(if(isNaN({bounded}), 0, {bounded}) * 1e9))"


def _clock(nano: str, *, earliest: bool) -> str:
    """Return SQL for a clock as text whose `max` is the latest or earliest."""
    # At least 2^56, so that all have sixteen hex digits.
    number = f"greatest(toUInt64({nano}), 72057594037927936)"
    return f"hex(bitNot({number}))" if earliest else f"hex({number})"


_OWN_MARKS = {
    semconv.RETRY_ATTEMPTED: "reason",
    semconv.FALLBACK_TRIGGERED: "primary_agent",
    semconv.DECISION_RECORDED: "decision_id",
}
"""Attribute by which a span event of the SDK is known; these are counted as events."""


def _marks(event_type: str = "") -> str:
    """Return SQL for the number of span events that programs added, or of those that carry an event."""
    names = {semconv.SPAN_EVENTS[kind][0]: own for kind, own in _OWN_MARKS.items()}
    own = f"transform(toString(n), {list(names)}, {list(names.values())}, '')"
    counted = f"NOT (ScopeName = 'tracereel' AND mapContains(a, {own}))"
    if event_type:
        counted = f"n = '{semconv.SPAN_EVENTS[event_type][0]}' AND {counted}"
    return f"sum(arrayCount((n, a) -> {counted}, `Events.Name`, `Events.Attributes`))"


def in_reach(time: str) -> str:
    """Return SQL for a time, limited to the range of DateTime. Clocks may be wrong."""
    seconds = f"intDiv(toUnixTimestamp64Nano({time}), 1000000000)"
    return f"toDateTime(greatest(0, least({seconds}, 4294967295)), 'UTC')"


def _figure(column: str) -> str:
    return f"toInt64(least(ifNull({column}, 0), {_MOST_TOKENS}))"


def _by_kind(
    condition: str, name: str, *, prompt: str, bound: Mapping[str, str] | None = None, **tokens: str
) -> str:
    """Return SQL for the tokens of one call if a condition holds, else empty.

    Every insert plans it. A value that is used several times is therefore `bound` to a name: written out
    each time, and within values that are themselves written out, it took half of a view's planning.
    """
    kinds = ", ".join(f"'\\t{kind}'" for kind in KINDS)
    size = f"toString(arrayCount(t -> {prompt} > t, {list(THRESHOLDS)!r}))"
    counts = ", ".join(f"{tokens[kind]}" for kind in KINDS)
    made = f"""mapFromArrays(
            arrayMap(kind -> concat({name}, kind, {size}), [{kinds}]),
            arrayMap(n -> toUInt64(greatest(n, 0)), [{counts}]))"""
    if bound:
        made = f"""arrayMap(({", ".join(bound)}) -> {made},
            {", ".join(f"[{value}]" for value in bound.values())})[1]"""
    return f"if({condition}, mapFilter((k, n) -> n > 0, {made}), {NO_TOKENS})"


def _call_name(provider: str, model: str) -> str:
    return f"concat({provider}, '\\t', left({model}, {_MAX_MODEL}))"


def _operations(*kinds: str) -> list[str]:
    return [operation for kind in kinds for operation in OPERATIONS[kind]]


_WITHOUT_OUTPUT = tuple(kind for kind in DIRECT_KINDS if kind != "llm")
# Cached tokens are part of the prompt, unless the sender counts them separately.
_SENT_APART = "prompt < read + written OR used = prompt + output + read + written"
UNPRICED: Final = _by_kind(
    f"""event_type = '{semconv.LLM_CALLED}' AND isNull(llm_cost_usd) AND isNotNull(llm_prompt_tokens)
            AND {CLOSES} AND has(if(isNotNull(llm_completion_tokens),
            {array(["", *_operations(*DIRECT_KINDS)])},
            {array(_operations(*_WITHOUT_OUTPUT))}), lower(t.operation))""",
    "name",
    bound={
        "name": _call_name(
            provider_of("t.llm_provider"), "if(llm_model = '', t.llm_model_requested, llm_model)"
        ),
        "prompt": _figure("llm_prompt_tokens"),
        "read": _figure("t.llm_cached_tokens"),
        "written": _figure("t.llm_cache_creation_tokens"),
        "output": _figure("llm_completion_tokens"),
        "used": _figure("llm_tokens_used"),
    },
    prompt=f"prompt + if({_SENT_APART}, read + written, 0)",
    input=f"prompt - if({_SENT_APART}, 0, read + written)",
    cache_read="read",
    cache_write="written",
    output="output",
)
"""SQL for the tokens of an event of a model call without a cost."""
UNPRICED_OF_SPANS: Final = _by_kind(
    "isNull(CostUsd) AND isNotNull(PromptTokens) AND (CallKind != 'llm' OR isNotNull(CompletionTokens))",
    _call_name("toString(Provider)", "toString(if(ModelServed = '', ModelRequested, ModelServed))"),
    prompt=_figure("PromptTokens"),
    input=f"{_figure('PromptTokens')} - {_figure('CacheReadTokens')} - {_figure('CacheWriteTokens')}",
    cache_read=_figure("CacheReadTokens"),
    cache_write=_figure("CacheWriteTokens"),
    output=_figure("CompletionTokens"),
)
"""SQL for the same tokens of a span received over OTLP."""

FRAGMENTS: Final = {"unpriced": UNPRICED}
"""Values of `$name` in the `.sql` files."""

_BODIES: Final[dict[str, dict[str, object]]] = {
    "event_summaries": {
        "moment": in_reach("timestamp"),
        "earliest": _clock("hlc", earliest=True),
        "earliest_begun": _clock("greatest(0, began_nano)", earliest=True),
        "latest": _clock("hlc", earliest=False),
        "closing": CLOSING,
        "calls": tuple(sorted(semconv.CALLS)),
        "pipelines": (semconv.PIPELINE_STARTED, semconv.PIPELINE_COMPLETED),
        "executions": (semconv.EXECUTION_STARTED, *CLOSING),
        "attempts": ATTEMPTS,
        "operation": OPERATION,
        "max_duration": MAX_DURATION_MS,
        "tags": _tags(
            agent="agent_name",
            pipeline="pipeline_type",
            model="llm_model",
            provider="llm_provider",
            service="service",
            session="session_id",
            user="user_id",
            error="error_type",
            category="error_category",
            code="error_code",
            emitter="emitter_id",
        ),
        "no_tokens": NO_TOKENS,
        "nano_usd": nano_usd("llm_cost_usd"),
        "max_prompt": MAX_PROMPT,
    },
    "span_summaries": {
        "moment": in_reach("Timestamp"),
        "earliest": _clock("toUnixTimestamp64Nano(Timestamp)", earliest=True),
        "latest": _clock("toUnixTimestamp64Nano(Timestamp)", earliest=False),
        "direct_kinds": DIRECT_KINDS,
        "marks": _marks(),
        "retries": _marks(semconv.RETRY_ATTEMPTED),
        "fallbacks": _marks(semconv.FALLBACK_TRIGGERED),
        "decisions": _marks(semconv.DECISION_RECORDED),
        "nano_usd": nano_usd("CostUsd"),
        "tags": _tags(
            agent="AgentName",
            pipeline="WorkflowName",
            model="if(ModelServed = '', ModelRequested, ModelServed)",
            provider="Provider",
            service="ServiceName",
            session="SessionId",
            user="UserId",
            error="ErrorType",
        ),
        "no_tokens": NO_TOKENS,
        "unpriced": UNPRICED_OF_SPANS,
    },
    "event_texts": {"moment": in_reach("timestamp"), **search_texts.OF_EVENTS},
    "content_texts": {"moment": in_reach("timestamp"), **search_texts.OF_CONTENT},
    "span_texts": {"moment": in_reach("Timestamp"), **search_texts.OF_SPANS},
    "log_texts": {"moment": in_reach("Timestamp"), **search_texts.OF_LOGS},
}
"""Values of the templates of views."""


def view_bodies(suffix: str) -> dict[str, str]:
    """Return values of `$name` in the `.sql` files: bodies of views that read tables with a suffix."""
    return {
        name: rendered(f"{name}.sql", local=suffix, **values) for name, values in _BODIES.items()
    }
