"""SQL for the canonical columns of a span, generated from the table of names.

Every attribute name is looked up once, by hash, and only known ones are processed: a span without any
is cheap. The expressions never throw and never read the clock.

The steps are nested subqueries, not aliases: the engine plans a view in every insert, and an alias is
copied into every expression that uses it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tracereel_collector.store.dialects.content import FIRST_TOKEN_EVENTS
from tracereel_collector.store.dialects.names import (
    DIRECT_KINDS,
    FINISH_REASONS,
    FRAMEWORKS,
    KINDS,
    MARKS,
    NAMED_KINDS,
    NO_CALLS,
    PROVIDERS,
    SLOTS,
)

_NUMBERS: Final = {slot: number for number, slot in enumerate(SLOTS, start=1)}
_CODES: Final = {
    name: _NUMBERS[slot] * 16 + rank
    for slot, names in SLOTS.items()
    for rank, name in enumerate(names)
}
"""Code of a name: its slot and, in the last four bits, its rank."""

_MOST: Final = 2**53
"""Upper bound of counts, so that sums do not overflow."""


def array(values: Iterable[object]) -> str:
    """Return values as an SQL array."""
    return f"[{', '.join(repr(value) for value in values)}]"


def _translated(value: str, words: Mapping[str, Sequence[str]], default: str) -> str:
    """Return SQL that replaces a text by its canonical word."""
    pairs = [(spelling, word) for word, spellings in words.items() for spelling in spellings]
    spellings, canonical = zip(*pairs, strict=True)
    return f"transform({value}, {array(spellings)}, {array(canonical)}, {default})"


def first(*texts: str) -> str:
    """Return SQL for the first text that is not empty."""
    if len(texts) < 2:
        return texts[0] if texts else "''"
    *others, last = texts
    branches = "".join(f"{text} != '', {text}, " for text in others)
    return f"multiIf({branches}{last})"


def _count(slot: str, *keys: str) -> str:
    """Return SQL for a count from an attribute or the usage object; -1 if missing.

    A sentinel instead of NULL, because nullable steps cost several times as much.
    """
    said = f"toInt64OrDefault(said_{slot}, toInt64(-1))"
    found = [
        f"usage.2[indexOf(usage.1, '{key}')] - (indexOf(usage.1, '{key}') = 0)" for key in keys
    ]
    return f"least(greatest({', '.join([said, *found, '-1'])}), {_MOST})"


def _counted(count: str, applies: str = "direct") -> str:
    """Return SQL for a count as a column value: NULL if missing or not applicable."""
    return f"nullIf({count} * {applies} + {applies} - 1, -1)"


def provider_of(name: str) -> str:
    """Return SQL for a provider's name in OpenTelemetry's spelling."""
    return _translated(f"lower({name})", PROVIDERS, f"lower({name})")


def kind_of(operation: str) -> str:
    """Return SQL for the kind of call of an operation name."""
    return _translated(operation, KINDS, "'other'")


def _by_name(kinds: Iterable[tuple[str, str, str]]) -> str:
    """Return the branches of a `multiIf` for kinds by scope and name."""
    return "".join(
        f"ScopeName = '{scope}' AND match(toString(SpanName), '{pattern}'), '{kind}', "
        for scope, pattern, kind in kinds
    )


def _said(slot: str, number: int) -> str:
    """Return SQL for the value of a slot."""
    value = f"sayings[indexOf(slots, {number})]"
    if slot != "usage_json":
        return value
    as_json = f"replaceAll(replaceAll({value}, 'None', 'null'), '\\'', '\"')"
    return f"if(startsWith({value}, '{{\\''), {as_json}, {value})"


_STEPS: Final[tuple[dict[str, str], ...]] = (
    {
        "codes": f"arrayMap(k -> CAST(transform(k, {array([*_CODES])}, {array([*_CODES.values()])}, 0)"
        " AS UInt16), mapKeys(SpanAttributes))",
    },
    {
        "slots": "arrayMap(c -> toUInt8(bitShiftRight(c, 4)), arraySort(arrayFilter("
        "(c, v) -> c > 0 AND v != '', codes, mapValues(SpanAttributes))))",
        # MLflow sends its texts as JSON.
        "sayings": """arrayMap(p -> if(startsWith(p.2, '"') AND endsWith(p.2, '"'),"""
        " JSONExtractString(p.2), p.2), arraySort(p -> p.1, arrayFilter("
        "p -> p.1 > 0 AND p.2 != '', arrayZip(codes, mapValues(SpanAttributes)))))",
    },
    {f"said_{slot}": _said(slot, number) for slot, number in _NUMBERS.items()},
    {
        "kind_word": "lower(said_kind)",
        "marked_kind": _translated("lower(said_mark)", MARKS, "''"),
        "usage": """arrayConcat(JSONExtractKeysAndValues(said_usage_json, 'Int64'),
            JSONExtractKeysAndValues(said_usage_json, 'prompt_tokens_details', 'Int64'),
            JSONExtractKeysAndValues(said_usage_json, 'completion_tokens_details', 'Int64'),
            JSONExtractKeysAndValues(said_usage_json, 'input_tokens_details', 'Int64'),
            JSONExtractKeysAndValues(said_usage_json, 'output_tokens_details', 'Int64'),
            JSONExtractKeysAndValues(said_usage_json, 'input_token_details', 'Int64'),
            JSONExtractKeysAndValues(said_usage_json, 'output_token_details', 'Int64'),
            JSONExtractKeysAndValues(said_input_details_json, 'Int64'),
            JSONExtractKeysAndValues(said_output_details_json, 'Int64'))""",
        "asked_in_json": "JSONExtractString(said_parameters_json, 'model')",
        "sent_provider": provider_of("said_provider"),
        "agent_in_json": "JSONExtractString(said_metadata_json, 'lc_agent_name')",
        # Langfuse's SDK uses the entity's name as the span's name.
        "entity": "if(said_entity = '' AND ScopeName = 'langfuse-sdk', toString(SpanName), said_entity)",
        "costs": "JSONExtractKeysAndValues(said_cost_json, 'Float64')",
        "finishes": """multiIf(said_finish_reason = '', [],
            startsWith(said_finish_reason, '['), JSONExtract(said_finish_reason, 'Array(String)'),
            [said_finish_reason])""",
        "sent_cost": "toFloat64OrDefault(said_cost, nan)",
        "first_token_at": f"""if(said_first_token_at != '',
            toUnixTimestamp64Nano(parseDateTime64BestEffortOrZero(
                trim(BOTH '"' FROM said_first_token_at), 9, 'UTC')),
            if(empty(`Events.Name`), 0, toUnixTimestamp64Nano(
                `Events.Timestamp`[arrayFirstIndex(n -> n IN {FIRST_TOKEN_EVENTS!r}, `Events.Name`)])))""",
    },
    {
        "call_kind": f"""multiIf(
            said_announcement = 'pending_span', '',
            {_by_name(NO_CALLS)}
            said_mcp_method != '' AND (kind_word = '' OR SpanKind = 'Server'), 'mcp',
            kind_word != '', {kind_of("kind_word")},
            said_tool != '', 'tool',
            marked_kind != '', marked_kind,
            concat(said_model_requested, said_model_served, said_model, asked_in_json) != '', 'llm',
            {_by_name(NAMED_KINDS)}
            '')""",
        "sent_prompt": _count("prompt_tokens", "input", "input_tokens", "prompt_tokens"),
        "completion": _count("completion_tokens", "output", "output_tokens", "completion_tokens"),
        "sent_total": _count("total_tokens", "total", "total_tokens"),
        "cache_read": _count(
            "cache_read_tokens",
            "cache_read_input_tokens",
            "input_cached_tokens",
            "input_cache_read",
            "cached_tokens",
            "cache_read",
        ),
        "cache_write": _count(
            "cache_write_tokens",
            "cache_creation_input_tokens",
            "input_cache_creation",
            "cache_creation",
        ),
        "reasoning": _count(
            "reasoning_tokens",
            "output_reasoning_tokens",
            "reasoning_tokens",
            "output_reasoning",
            "reasoning",
        ),
        "cost": """multiIf(
            said_cost_currency NOT IN ('', 'USD', 'usd'), nan,
            isFinite(sent_cost), sent_cost,
            has(costs.1, 'total'), costs.2[indexOf(costs.1, 'total')],
            notEmpty(costs.1), arraySum(costs.2),
            nan)""",
    },
)
"""Intermediate steps; each can use those before it."""

_LAST_STEP: Final = {
    "direct": f"toInt64(call_kind IN {DIRECT_KINDS!r})",
    "inclusive": "toInt64(call_kind != '') - direct",
    "cached": "greatest(cache_read, 0) + greatest(cache_write, 0)",
    "both": "(sent_prompt >= 0) * (completion >= 0)",
    # Cached tokens are part of the prompt, unless the numbers show that they were excluded.
    # (Langfuse's keys name disjoint parts.)
    "cached_apart": """(cached > 0) * (sent_prompt >= 0) * greatest(sent_prompt < cached,
        sent_total = sent_prompt + greatest(completion, 0) + cached,
        has(usage.1, 'input') * (sent_total != sent_prompt + greatest(completion, 0)))""",
    "prompt": "sent_prompt + cached * cached_apart",
    # A cost of 0 for tokens means that the sender knew no price.
    "known_cost": "if(cost = 0 AND (prompt > 0 OR completion > 0), nan, cost)",
    "total": "both * (prompt + completion) + (1 - both) * greatest(sent_total, prompt)",
}
"""Last step, short enough for aliases."""

_BARE_MODEL: Final = f"if(call_kind IN {DIRECT_KINDS!r}, said_bare_model, '')"
_NAME_OF_AGENT: Final = r"^(invoke_agent |agent_run \\[)|(\\]|\\.run|\\.agent|\\._execute_core)$"
"""Pattern of what frameworks add to an agent's name in the name of its span."""
_NAMES_AGENTS: Final = (
    "gcp.vertex.agent",
    "langfuse-sdk",
    "mlflow.tracing.provider",
    "openinference.instrumentation.smolagents",
)
"""Scopes whose spans of agents have the agent's name."""

COLUMNS: Final[dict[str, tuple[str, str, str]]] = {
    "CallKind": (
        "LowCardinality(String)",
        "call_kind",
        "kind of call; '' if the span is not about agents or models",
    ),
    "Provider": (
        "LowCardinality(String)",
        f"if(sent_provider IN {FRAMEWORKS!r}, '', sent_provider)",
        "who ran the model, in OpenTelemetry's spelling",
    ),
    "ModelRequested": (
        "LowCardinality(String)",
        first("said_model_requested", "asked_in_json", "said_model", _BARE_MODEL),
        "the model that was asked for",
    ),
    "ModelServed": (
        "LowCardinality(String)",
        first("said_model_served", "said_model", _BARE_MODEL),
        "the model that answered, if it is known",
    ),
    "PromptTokens": (
        "Nullable(UInt64)",
        _counted("prompt"),
        "of one model call, cached tokens included",
    ),
    "CompletionTokens": (
        "Nullable(UInt64)",
        _counted("completion"),
        "of one model call, reasoning tokens included",
    ),
    "TotalTokens": ("Nullable(UInt64)", _counted("total"), "prompt and completion"),
    "CacheReadTokens": ("Nullable(UInt64)", _counted("cache_read"), "part of the prompt"),
    "CacheWriteTokens": ("Nullable(UInt64)", _counted("cache_write"), "part of the prompt"),
    "ReasoningTokens": (
        "Nullable(UInt64)",
        _counted("reasoning"),
        "part of the completion",
    ),
    "PromptFormula": (
        "LowCardinality(String)",
        "['', 'input', 'input + cache'][1 + direct * (sent_prompt >= 0) * (1 + cached_apart)]",
        "how PromptTokens came about: `input` as sent, or with the cached tokens added to it",
    ),
    "CostUsd": (
        "Nullable(Float64)",
        "if(direct = 1 AND isFinite(known_cost), known_cost, NULL)",
        "of one model call, as the sender gave it",
    ),
    "InclusiveTokens": (
        "Nullable(UInt64)",
        _counted("total", "inclusive"),
        "of everything inside an agent, workflow or step, as sent: not to be added to its calls",
    ),
    "InclusiveCostUsd": (
        "Nullable(Float64)",
        "if(inclusive = 1 AND isFinite(known_cost), known_cost, NULL)",
        "of everything inside, as sent",
    ),
    "AgentName": (
        "LowCardinality(String)",
        first(
            "said_agent",
            "agent_in_json",
            "if(call_kind = 'agent', entity, '')",
            "if(call_kind = 'agent', said_node, '')",
            "if(call_kind = 'agent' AND marked_kind != '', said_bare_name, '')",
            f"if(call_kind = 'agent' AND ScopeName IN {_NAMES_AGENTS!r},"
            f" replaceRegexpAll(toString(SpanName), '{_NAME_OF_AGENT}', ''), '')",
        ),
        "the agent this is, or happens in",
    ),
    "WorkflowName": ("LowCardinality(String)", "said_workflow", "the workflow or pipeline"),
    "ToolName": (
        "LowCardinality(String)",
        first(
            "said_tool",
            "if(call_kind = 'tool', entity, '')",
            "if(call_kind = 'tool' AND marked_kind != '',"
            " if(said_bare_tool = '', said_bare_name, said_bare_tool), '')",
        ),
        "the tool that was called",
    ),
    "ToolCallId": ("String", "said_tool_call_id", "the model's id of the call"),
    "SessionId": (
        "String",
        # Logfire sends the group of an agent that has none as `null`.
        first(
            "said_session",
            "if(marked_kind = '' OR said_bare_session = 'null', '', said_bare_session)",
        ),
        "the conversation",
    ),
    "UserId": ("String", "said_user", "the user"),
    "FinishReason": (
        "LowCardinality(String)",
        f"""arrayStringConcat(
        arrayMap(r -> {_translated("lower(r)", FINISH_REASONS, "r")}, finishes), ',')""",
        "why the model stopped; several choices with commas",
    ),
    "ErrorType": (
        "LowCardinality(String)",
        first(
            "said_error",
            "`Events.Attributes`[indexOf(`Events.Name`, 'exception')]['exception.type']",
            "if(StatusCode = 'Error', '_OTHER', '')",
        ),
        "the error's type; `_OTHER` if only the status is an error",
    ),
    "ResponseId": (
        "String",
        first(
            "said_response_id",
            # The provider's answer as it came, or as LangChain puts it.
            "if(direct = 1, JSONExtractString(SpanAttributes['output.value'], 'id'), '')",
            "if(direct = 1, JSONExtractString(SpanAttributes['output.value'], 'llm_output', 'id'), '')",
        ),
        "the provider's id of the answer: two spans with one id describe one call",
    ),
    "FirstTokenMs": (
        "Nullable(Float64)",
        """multiIf(
        said_first_token_seconds != '', 1000 * toFloat64OrNull(said_first_token_seconds),
        said_first_token_ms != '', toFloat64OrNull(said_first_token_ms),
        first_token_at > 0, (first_token_at - toUnixTimestamp64Nano(Timestamp)) / 1000000, NULL)""",
        "from the call to the first part of the answer",
    ),
    "StepName": (
        "LowCardinality(String)",
        "if(position(SpanName, '{') > 0, left(said_message, 200), '')",
        "readable name where the span's name is a template",
    ),
}
"""Columns: type, SQL, comment."""


def _definition(name: str, kind: str, comment: str) -> str:
    quoted = comment.replace("'", "\\'")
    return f"{name} {kind} COMMENT '{quoted}' CODEC(ZSTD(1))"


def translation(source: str, *, said: bool = False) -> str:
    """Return a query with the columns of a source and the canonical ones.

    With `said`, the source already has a column `said_…` for each slot: the attributes are not
    searched, and these columns are dropped.
    """
    way = _STEPS[3:] if said else _STEPS
    passing = [name for step in (_STEPS[2:] if said else _STEPS) for name in step]
    steps = ",\n    ".join(f"{sql} AS {name}" for name, sql in _LAST_STEP.items())
    added = ",\n    ".join(f"{sql} AS {name}" for name, (_, sql, _) in COLUMNS.items())
    text = f"WITH {steps}\nSELECT * EXCEPT ({', '.join(passing)}),\n    {added}"
    for step in reversed(way):
        text += "\nFROM (SELECT *, " + ", ".join(f"{sql} AS {name}" for name, sql in step.items())
    return f"{text}\nFROM {source}{')' * len(way)}"


FRAGMENTS: Final = {
    "canonical_definitions": ",\n    ".join(
        _definition(name, kind, comment) for name, (kind, _, comment) in COLUMNS.items()
    ),
    "translated_spans": translation("spans_in"),
    "direct_kinds": repr(DIRECT_KINDS),
}
"""Values of `$name` in the `.sql` files."""
