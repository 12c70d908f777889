"""SQL of the run rollup for lists and searches, and helpers that other rollups share.

It runs in every insert: it must not throw and must not read the clock.
"""

from typing import Final

from tracereel import semconv
from tracereel_collector.store.dialects.names import DIRECT_KINDS
from tracereel_collector.store.rollup_costs import NO_TOKENS, UNPRICED_COLUMNS, UNPRICED_OF_SPANS
from tracereel_collector.store.template import rendered

TAG_KINDS: Final = (
    *("agent", "pipeline", "model", "provider", "service", "session", "user"),
    *("error", "category", "code"),
)
"""Kinds of tags by which runs are found; also the names of the facets."""
MAX_TAG: Final = 256
MAX_PROMPT: Final = 300

CLOSING = (semconv.EXECUTION_COMPLETED, semconv.EXECUTION_FAILED, semconv.EXECUTION_CANCELLED)


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


def _marks(event_type: str, *, own: str) -> str:
    """Return SQL for the number of span events that programs added in place of an event.

    Those of the SDK have the attribute `own`; they are counted as events.
    """
    name, _ = semconv.SPAN_EVENTS[event_type]
    counted = f"n = '{name}' AND NOT (ScopeName = 'tracereel' AND mapContains(a, '{own}'))"
    return f"sum(arrayCount((n, a) -> {counted}, `Events.Name`, `Events.Attributes`))"


def in_reach(time: str) -> str:
    """Return SQL for a time, limited to the range of DateTime. Clocks may be wrong."""
    seconds = f"intDiv(toUnixTimestamp64Nano({time}), 1000000000)"
    return f"toDateTime(greatest(0, least({seconds}, 4294967295)), 'UTC')"


FRAGMENTS: Final = {
    "event_summaries": rendered(
        "event_summaries.sql",
        moment=in_reach("timestamp"),
        earliest=_clock("hlc", earliest=True),
        latest=_clock("hlc", earliest=False),
        closing=CLOSING,
        tags=_tags(
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
        no_tokens=NO_TOKENS,
        nano_usd=nano_usd("llm_cost_usd"),
        unpriced_columns=UNPRICED_COLUMNS,
        max_prompt=MAX_PROMPT,
    ),
    "span_summaries": rendered(
        "span_summaries.sql",
        moment=in_reach("Timestamp"),
        earliest=_clock("toUnixTimestamp64Nano(Timestamp)", earliest=True),
        latest=_clock("toUnixTimestamp64Nano(Timestamp)", earliest=False),
        direct_kinds=DIRECT_KINDS,
        retries=_marks(semconv.RETRY_ATTEMPTED, own="reason"),
        fallbacks=_marks(semconv.FALLBACK_TRIGGERED, own="primary_agent"),
        decisions=_marks(semconv.DECISION_RECORDED, own="decision_id"),
        nano_usd=nano_usd("CostUsd"),
        tags=_tags(
            agent="AgentName",
            pipeline="WorkflowName",
            model="if(ModelServed = '', ModelRequested, ModelServed)",
            provider="Provider",
            service="ServiceName",
            session="SessionId",
            user="UserId",
            error="ErrorType",
        ),
        no_tokens=NO_TOKENS,
        unpriced=UNPRICED_OF_SPANS,
    ),
}
"""Values of `$name` in the `.sql` files."""
