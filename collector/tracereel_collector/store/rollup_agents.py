"""SQL of the per-minute rollup of agents; its sums can be subtracted again on deletion."""

from typing import Final, NamedTuple

from tracereel import semconv
from tracereel_collector.store.rollups import (
    CLOSING,
    MAX_DURATION_MS,
    in_reach,
    nano_usd,
)
from tracereel_collector.store.template import rendered

STEPS_PER_OCTAVE: Final = 72
"""Duration buckets per factor of two. Each is 2^(1/72) times the last: percentiles are within 1 %."""
_NO_DURATION = 2**62

_IS_CALL = f"event_type = '{semconv.LLM_CALLED}'"
_ENDS = f"event_type IN {CLOSING!r}"
_SPAN_AGENT = "CallKind = 'agent'"
_CALLS = "toInt64(if(Told, -toInt8(Repeated), 1 - toInt8(Repeated)))"
"""Calls that a row of `settled_calls` adds: the sums of events have those of events."""
_IS_EXACT = "agent_events.span_began > 0 AND agent_events.span_ended >= agent_events.span_began"
_DURATION = f"""if({_IS_EXACT},
        intDiv(agent_events.span_ended - agent_events.span_began, 1000),
        toInt64(least(ifNull(agent_events.duration_ms, 0), {MAX_DURATION_MS})) * 1000)"""
_HAS_DURATION = f"{_ENDS} AND ({_IS_EXACT} OR isNotNull(agent_events.duration_ms))"
_SPAN_DURATION = f"toInt64(least(intDiv(Duration, 1000), {MAX_DURATION_MS} * 1000))"


class _AgentSum(NamedTuple):
    """Column of the rollup: type, SQL over events, SQL over spans, comment."""

    kind: str
    events: str
    spans: str
    comment: str
    settled: str
    """SQL over model calls of spans, which are known when their trace is settled."""
    bound: str = ""
    """min or max for a column that is not a sum; deletions do not change it."""

    @property
    def function(self) -> str:
        return self.bound or ("sumMap" if self.kind.startswith("Map") else "sum")

    def taken(self, name: str) -> str:
        """Return SQL for the sums that cancel a row."""
        if self.bound:
            return str(_NO_DURATION if self.bound == "min" else 0)
        return f"-a.{name}" if self.function == "sum" else f"mapApply((k, v) -> (k, -v), a.{name})"


def _number(
    comment: str, events: str, spans: str = "toInt64(0)", settled: str = "toInt64(0)"
) -> _AgentSum:
    return _AgentSum("Int64", events, spans, comment, settled)


def _count(
    comment: str, event_type: str, spans: str = "", settled: str = "toInt64(0)"
) -> _AgentSum:
    """Count the events of a type, and the spans for which a condition holds."""
    counted = f"sum(toInt64(event_type = '{event_type}'))"
    return _number(comment, counted, f"sum(toInt64({spans}))" if spans else "toInt64(0)", settled)


def _counts(
    comment: str,
    key_type: str,
    events: tuple[str, str],
    spans: tuple[str, str] | None = None,
    settled: str = "",
) -> _AgentSum:
    """Count by key; events and spans have a key and a condition each."""
    kind = f"Map({key_type}, Int64)"
    empty = f"CAST(map(), '{kind}')"

    def counted(key: str, applies: str) -> str:
        if key_type == "String":
            key = f"toString(left({key}, 256))"
        return f"sumMap(if({applies}, CAST(map({key}, toInt64(1)), '{kind}'), {empty}))"

    return _AgentSum(
        kind, counted(*events), counted(*spans) if spans else empty, comment, settled or empty
    )


def _bucket(microseconds: str) -> str:
    """Return SQL for the bucket of a duration; `query/durations.py` has the inverse."""
    return f"toInt16(ceil(log2(greatest(toFloat64({microseconds}), 1)) * {STEPS_PER_OCTAVE}))"


def _bound(function: str) -> _AgentSum:
    """Return the column of the shortest or longest duration."""
    none = _NO_DURATION if function == "min" else 0
    return _AgentSum(
        "Int64",
        f"{function}(if({_HAS_DURATION}, {_DURATION}, {none}))",
        f"{function}(if({_SPAN_AGENT}, {_SPAN_DURATION}, {none}))",
        f"of one execution; {none} for none",
        f"toInt64({none})",
        bound=function,
    )


_AGENT_SUMS: Final = {
    "started": _count("executions begun", semconv.EXECUTION_STARTED, _SPAN_AGENT),
    "succeeded": _count(
        "executions that ended well",
        semconv.EXECUTION_COMPLETED,
        f"{_SPAN_AGENT} AND StatusCode != 'Error'",
    ),
    "failed": _count(
        "executions that failed",
        semconv.EXECUTION_FAILED,
        f"{_SPAN_AGENT} AND StatusCode = 'Error'",
    ),
    "cancelled": _count("executions stopped from outside", semconv.EXECUTION_CANCELLED),
    "retries": _count(
        "attempts that failed and were to be followed by another", semconv.RETRY_ATTEMPTED
    ),
    "fallbacks": _count(
        "times that another agent took over from this one", semconv.FALLBACK_TRIGGERED
    ),
    "decisions": _count("decisions written down", semconv.DECISION_RECORDED),
    "model_calls": _count("calls of models", semconv.LLM_CALLED, settled=_CALLS),
    "tool_calls": _count("calls of tools", semconv.TOOL_CALLED, "CallKind = 'tool'"),
    "call_tokens": _number(
        "tokens of model calls",
        f"sumIf(toInt64(ifNull(llm_tokens_used, 0)), {_IS_CALL})",
        settled=f"{_CALLS} * Tokens",
    ),
    "execution_tokens": _number(
        "tokens as reported by executions; for agents whose calls are not recorded",
        f"sumIf(toInt64(ifNull(llm_tokens_used, 0)), {_ENDS})",
    ),
    "call_nano_usd": _number(
        "cost of model calls", f"sumIf(nano_usd, {_IS_CALL})", settled=f"{_CALLS} * NanoUsd"
    ),
    "execution_nano_usd": _number("cost as reported by executions", f"sumIf(nano_usd, {_ENDS})"),
    "duration_us": _number(
        "of all executions together",
        f"sumIf({_DURATION}, {_HAS_DURATION})",
        f"sumIf({_SPAN_DURATION}, {_SPAN_AGENT})",
    ),
    "shortest_us": _bound("min"),
    "longest_us": _bound("max"),
    "durations": _counts(
        f"executions by duration: n holds those up to 2^(n/{STEPS_PER_OCTAVE}) microseconds",
        "Int16",
        (_bucket(_DURATION), _HAS_DURATION),
        (_bucket(_SPAN_DURATION), _SPAN_AGENT),
    ),
    "confidence_ppm": _number(
        "all confidences together, in millionths",
        f"sumIf(toInt64(ifNull(confidence, 0) * 1000000), {_ENDS})",
    ),
    "confidences": _counts(
        "executions by confidence, in tenths",
        "Int16",
        (
            "toInt16(least(floor(ifNull(confidence, 0) * 10), 9))",
            f"{_ENDS} AND isNotNull(confidence)",
        ),
    ),
    "errors": _counts(
        "by type",
        "String",
        ("error_type", "error_type != ''"),
        ("ErrorType", f"ErrorType != '' AND {_SPAN_AGENT}"),
    ),
    "categories": _counts(
        "errors by category", "String", ("error_category", "error_category != ''")
    ),
    "models": _counts(
        "calls by model",
        "String",
        ("llm_model", f"{_IS_CALL} AND llm_model != ''"),
        settled=f"CAST(mapFilter((k, v) -> k != '' AND v != 0, map(toString(Model), {_CALLS})),"
        " 'Map(String, Int64)')",
    ),
    "unpriced_tokens": _AgentSum(
        "Map(String, Int64)",
        "sumMap(CAST(unpriced, 'Map(String, Int64)'))",
        "CAST(map(), 'Map(String, Int64)')",
        "tokens of model calls without a cost: provider, tab, model, tab, kind of token",
        f"mapApply((k, v) -> (k, v * {_CALLS}), Unpriced)",
    ),
}


def _event_sums(where: str = "", suffix: str = "") -> str:
    return rendered(
        "event_agent_sums.sql",
        moment=in_reach("timestamp"),
        sums=",\n    ".join(f"{each.events} AS {name}" for name, each in _AGENT_SUMS.items()),
        nano_usd=nano_usd("llm_cost_usd"),
        where=where,
        local=suffix,
    )


def _span_sums(where: str = "", suffix: str = "") -> str:
    return rendered(
        "span_agent_sums.sql",
        moment=in_reach("Timestamp"),
        sums=",\n    ".join(f"{each.spans} AS {name}" for name, each in _AGENT_SUMS.items()),
        where=where,
        local=suffix,
    )


class Subtraction(NamedTuple):
    """Queries by which the rows of runs on one shard are taken out of the rollup."""

    state: str
    """Number of the rows and a digest of them."""
    rows: str
    """Rows of `agent_minutes` that make its sums smaller."""

    @classmethod
    def of(cls, sums: str, *, table: str, identity: str, runs: str) -> "Subtraction":
        """Return the queries for a table with rows of runs."""
        taken = ", ".join(f"{each.taken(name)} AS {name}" for name, each in _AGENT_SUMS.items())
        return cls(
            f"SELECT count(), sum(cityHash64({identity})) FROM {table} WHERE {runs}",
            f"SELECT tenant, minute, agent, month, {taken} FROM ({sums}) AS a",
        )


_EVENTS = (
    "tenant = {tenant:String} AND trace_id IN {ids:Array(String)} AND shardNum() = {shard:UInt32}"
)
_SPANS = (
    "TenantId = {tenant:String} AND TraceId IN {otel:Array(String)} AND shardNum() = {shard:UInt32}"
)
SUBTRACTIONS: Final = {
    "agent_events": Subtraction.of(
        _event_sums(f" WHERE {_EVENTS}"),
        table="agent_events",
        identity="ingested_at, sequence_number, event_id",
        runs=_EVENTS,
    ),
    "otel_spans": Subtraction.of(
        _span_sums(f" AND {_SPANS}"),
        table="otel_spans",
        identity="IngestedAt, SequenceNumber, SpanId",
        runs=_SPANS,
    ),
}
"""By the table with the rows that were summed."""

EXACT_DURATIONS: Final = {
    "event_moment": in_reach("timestamp"),
    "event_us": _DURATION,
    "event_ends": _HAS_DURATION,
    "span_moment": in_reach("Timestamp"),
    "span_us": _SPAN_DURATION,
    "span_ends": _SPAN_AGENT,
}
"""Values of `$name` in `agent_durations.sql`, which reads what the rollup counts."""

FRAGMENTS: Final = {
    "agent_sum_definitions": ",\n    ".join(
        f"{name} SimpleAggregateFunction({each.function}, {each.kind})"
        f" COMMENT '{each.comment}' CODEC(ZSTD(1))"
        for name, each in _AGENT_SUMS.items()
    ),
    "agent_sums_of_calls": ",\n    ".join(
        f"{each.settled} AS {name}" for name, each in _AGENT_SUMS.items()
    ),
    "agent_sums_again": ",\n    ".join(
        f"{each.function}(agent_minutes.{name}) AS {name}" for name, each in _AGENT_SUMS.items()
    ),
}
"""Values of `$name` in the `.sql` files."""


def view_bodies(suffix: str) -> dict[str, str]:
    """Return values of `$name` in the `.sql` files: bodies of views that read tables with a suffix."""
    return {
        "event_agent_sums": _event_sums(suffix=suffix),
        "span_agent_sums": _span_sums(suffix=suffix),
    }
