"""SQL of the per-minute rollup of agents; its sums can be subtracted again on deletion."""

from typing import Final

from tracereel import semconv
from tracereel_collector.store.dialects.names import DIRECT_KINDS
from tracereel_collector.store.rollup_costs import UNPRICED_COLUMNS, UNPRICED_OF_SPANS
from tracereel_collector.store.rollups import CLOSING, FROM_OTLP, in_reach, nano_usd

STEPS_PER_OCTAVE: Final = 8
"""Duration buckets per factor of two. Each is 2^(1/8) times the last: percentiles are within 5 %."""

_FAILED_AGENT = f"toInt64(event_type = '{semconv.EXECUTION_FAILED}')"
_IS_CALL = f"event_type = '{semconv.LLM_CALLED}'"
_ENDS = f"event_type IN {CLOSING!r}"
_SPAN_AGENT, _SPAN_CALL = "CallKind = 'agent'", f"CallKind IN {DIRECT_KINDS!r}"
_SPAN_MODEL = "if(ModelServed = '', ModelRequested, ModelServed)"


def _bucket(milliseconds: str) -> str:
    """Return SQL for the bucket of a duration; the inverse is `bucket_bounds` in `query/buckets.py`."""
    return f"toInt16(ceil(log2(greatest(toFloat64({milliseconds}), 0.001)) * {STEPS_PER_OCTAVE}))"


def _counts(key: str, key_type: str, applies: str) -> str:
    """Return SQL that counts each key among the rows for which a condition holds."""
    kind = f"Map({key_type}, Int64)"
    return f"sumMap(if({applies}, CAST(map({key}, toInt64(1)), '{kind}'), CAST(map(), '{kind}')))"


_AGENT_SUMS: Final[dict[str, tuple[str, str, str, str]]] = {
    "started": (
        "Int64",
        f"sum(toInt64(event_type = '{semconv.EXECUTION_STARTED}'))",
        f"sum(toInt64({_SPAN_AGENT}))",
        "executions begun",
    ),
    "succeeded": (
        "Int64",
        f"sum(toInt64(event_type = '{semconv.EXECUTION_COMPLETED}'))",
        f"sum(toInt64({_SPAN_AGENT} AND StatusCode != 'Error'))",
        "executions that ended well",
    ),
    "failed": (
        "Int64",
        f"sum({_FAILED_AGENT})",
        f"sum(toInt64({_SPAN_AGENT} AND StatusCode = 'Error'))",
        "executions that failed",
    ),
    "cancelled": (
        "Int64",
        f"sum(toInt64(event_type = '{semconv.EXECUTION_CANCELLED}'))",
        "toInt64(0)",
        "executions stopped from outside",
    ),
    "retries": (
        "Int64",
        f"sum(toInt64(event_type = '{semconv.RETRY_ATTEMPTED}'))",
        "toInt64(0)",
        "attempts that failed and were to be followed by another",
    ),
    "fallbacks": (
        "Int64",
        f"sum(toInt64(event_type = '{semconv.FALLBACK_TRIGGERED}'))",
        "toInt64(0)",
        "times that another agent took over from this one",
    ),
    "decisions": (
        "Int64",
        f"sum(toInt64(event_type = '{semconv.DECISION_RECORDED}'))",
        "toInt64(0)",
        "decisions written down",
    ),
    "model_calls": (
        "Int64",
        f"sum(toInt64({_IS_CALL}))",
        f"sum(toInt64({_SPAN_CALL}))",
        "calls of models",
    ),
    "tool_calls": (
        "Int64",
        f"sum(toInt64(event_type = '{semconv.TOOL_CALLED}'))",
        "sum(toInt64(CallKind = 'tool'))",
        "calls of tools",
    ),
    "call_tokens": (
        "Int64",
        f"sumIf(toInt64(ifNull(llm_tokens_used, 0)), {_IS_CALL})",
        "sum(toInt64(ifNull(TotalTokens, 0)))",
        "tokens of model calls",
    ),
    "execution_tokens": (
        "Int64",
        f"sumIf(toInt64(ifNull(llm_tokens_used, 0)), {_ENDS})",
        "toInt64(0)",
        "tokens as executions told them; for agents whose calls are not recorded",
    ),
    "call_nano_usd": (
        "Int64",
        f"sumIf(nano_usd, {_IS_CALL})",
        f"sum({nano_usd('CostUsd')})",
        "cost of model calls",
    ),
    "execution_nano_usd": (
        "Int64",
        f"sumIf(nano_usd, {_ENDS})",
        "toInt64(0)",
        "cost as executions told it",
    ),
    "duration_ms": (
        "Int64",
        f"sumIf(toInt64(ifNull(agent_events.duration_ms, 0)), {_ENDS})",
        f"sumIf(toInt64(intDiv(Duration, 1000000)), {_SPAN_AGENT})",
        "of all executions together",
    ),
    "durations": (
        "Map(Int16, Int64)",
        _counts(
            _bucket("ifNull(agent_events.duration_ms, 0)"),
            "Int16",
            f"{_ENDS} AND isNotNull(agent_events.duration_ms)",
        ),
        _counts(_bucket("Duration / 1000000"), "Int16", _SPAN_AGENT),
        "executions by duration: n holds those up to 2^(n/8) ms",
    ),
    "confidence_ppm": (
        "Int64",
        f"sumIf(toInt64(ifNull(confidence, 0) * 1000000), {_ENDS})",
        "toInt64(0)",
        "all confidences together, in millionths",
    ),
    "confidences": (
        "Map(Int16, Int64)",
        _counts(
            "toInt16(least(floor(ifNull(confidence, 0) * 10), 9))",
            "Int16",
            f"{_ENDS} AND isNotNull(confidence)",
        ),
        "CAST(map(), 'Map(Int16, Int64)')",
        "executions by confidence, in tenths",
    ),
    "errors": (
        "Map(String, Int64)",
        _counts("toString(left(error_type, 256))", "String", "error_type != ''"),
        _counts("toString(left(ErrorType, 256))", "String", f"ErrorType != '' AND {_SPAN_AGENT}"),
        "by type",
    ),
    "categories": (
        "Map(String, Int64)",
        _counts("toString(left(error_category, 256))", "String", "error_category != ''"),
        "CAST(map(), 'Map(String, Int64)')",
        "errors by category",
    ),
    "models": (
        "Map(String, Int64)",
        _counts("toString(left(llm_model, 256))", "String", f"{_IS_CALL} AND llm_model != ''"),
        _counts(
            f"toString(left({_SPAN_MODEL}, 256))", "String", f"{_SPAN_CALL} AND {_SPAN_MODEL} != ''"
        ),
        "calls by model",
    ),
    "unpriced_tokens": (
        "Map(String, Int64)",
        "sumMap(CAST(unpriced, 'Map(String, Int64)'))",
        f"sumMap(CAST({UNPRICED_OF_SPANS}, 'Map(String, Int64)'))",
        "tokens of model calls without a cost: provider, tab, model, tab, kind of token",
    ),
}
"""Columns: type, SQL over events, SQL over spans, comment."""

_SPANS_OF_AGENTS = f"{FROM_OTLP} AND AgentName != '' AND ScopeName != 'tracereel'"


def _agent_sums(place: int) -> str:
    return ",\n    ".join(f"{sums[place]} AS {name}" for name, sums in _AGENT_SUMS.items())


def _event_sums(where: str = "") -> str:
    return f"""SELECT
    tenant,
    toStartOfMinute({in_reach("timestamp")}) AS minute,
    agent,
    toStartOfMonth(ingested_at) AS month,
    {_agent_sums(1)}
FROM
(
    SELECT
        * EXCEPT payload,
        {nano_usd("llm_cost_usd")} AS nano_usd,{UNPRICED_COLUMNS}
        if(agent_name = '', JSONExtractString(
            if(event_type = '{semconv.FALLBACK_TRIGGERED}', payload, ''), 'primary_agent'),
            toString(agent_name)) AS agent
    FROM agent_events{where}
) AS agent_events
WHERE agent != '' AND startsWith(event_type, 'agent.')
GROUP BY tenant, minute, agent, month"""


def _span_sums(where: str = "") -> str:
    return f"""SELECT
    TenantId AS tenant,
    toStartOfMinute({in_reach("Timestamp")}) AS minute,
    AgentName AS agent,
    toStartOfMonth(IngestedAt) AS month,
    {_agent_sums(2)}
FROM otel_spans
WHERE {_SPANS_OF_AGENTS}{where}
GROUP BY tenant, minute, agent, month"""


def _subtracted(sums: str) -> str:
    taken = ", ".join(
        f"mapApply((k, v) -> (k, -v), a.{name}) AS {name}"
        if kind.startswith("Map")
        else f"-a.{name} AS {name}"
        for name, (kind, *_) in _AGENT_SUMS.items()
    )
    return (
        f"INSERT INTO agent_minutes SELECT tenant, minute, agent, month, {taken} FROM ({sums}) AS a"
    )


FORGET: Final = {
    "agent_events": _subtracted(
        _event_sums(" WHERE tenant = {tenant:String} AND trace_id IN {ids:Array(String)}")
    ),
    "otel_spans": _subtracted(
        _span_sums(" AND TenantId = {tenant:String} AND TraceId IN {otel:Array(String)}")
    ),
}
"""Statements that subtract runs from the rollup; run each once, directly before the delete."""

FRAGMENTS: Final = {
    "event_agent_sums": _event_sums(),
    "span_agent_sums": _span_sums(),
    "agent_sum_definitions": ",\n    ".join(
        f"{name} SimpleAggregateFunction({'sumMap' if kind.startswith('Map') else 'sum'}, {kind})"
        f" COMMENT '{comment}' CODEC(ZSTD(1))"
        for name, (kind, _, _, comment) in _AGENT_SUMS.items()
    ),
    "agent_sums_again": ",\n    ".join(
        f"{'sumMap' if kind.startswith('Map') else 'sum'}(agent_minutes.{name}) AS {name}"
        for name, (kind, *_) in _AGENT_SUMS.items()
    ),
}
"""Values of `$name` in the `.sql` files."""
