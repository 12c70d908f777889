"""Fields that code can set on its execution, and their validation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict

from tracereel._redact import safe_access, values
from tracereel.semconv import CANCELLED, FAILED, PARTIAL_SUCCESS, SUCCESS

MAX_DOCUMENTS: Final = 200
"""Maximum number of listed documents per retrieval; all are counted."""
MAX_DOCUMENT_ID: Final = 128
_KEYS: Final = ("id", "document_id", "doc_id", "_id")
_SCORES: Final = ("score", "similarity", "_score")
_LISTS: Final = ("ids", "matches", "points", "hits", "documents", "results")
"""Attributes in which vector stores and search engines return their results."""
STATUSES: Final = frozenset({SUCCESS, PARTIAL_SUCCESS, FAILED, CANCELLED})


class ExecutionFields(TypedDict, total=False):
    """The arguments of `Execution.set`."""

    confidence: float | None
    reasoning: str | None
    decision_type: str | None
    stage: str | None
    outcome: str | None
    status: str | None
    error_code: str | None
    timeout_seconds: float | None
    partial_output: Mapping[str, Any] | None
    llm_provider: str | None
    llm_model: str | None
    llm_tokens_used: int | None
    llm_prompt_tokens: int | None
    llm_completion_tokens: int | None
    llm_cached_tokens: int | None
    llm_cache_creation_tokens: int | None
    llm_reasoning_tokens: int | None
    llm_cost_usd: float | None
    llm_duration_seconds: float | None
    time_to_first_token_ms: int | None
    enable_thinking: bool | None
    thinking_budget: int | None
    finish_reason: str | None
    input_messages: Sequence[Any] | None
    output_messages: Sequence[Any] | None
    tool_definitions: Sequence[Any] | None
    request_parameters: Mapping[str, Any] | None
    tool_call_id: str | None
    tool_call_ids: Sequence[str] | None
    query: str | None
    collection: str | None
    top_k: int | None
    result_count: int | None
    documents: Sequence[Any] | None
    degraded: bool | None
    degraded_reason: str | None


def _long(value: object) -> str | None:
    return values.label(value, values.TEXT_LIMIT)


def _list(value: object) -> list[Any]:
    data = values.plain(value)
    return data if isinstance(data, list) else [data]


def _labels(value: object) -> list[str]:
    return [values.label(each) or "" for each in _list(value)]


def flag(value: object) -> bool | None:
    """Return a boolean, or None."""
    return value if value is True or value is False else None


def _status(value: object) -> str | None:
    return value if isinstance(value, str) and value in STATUSES else None


def documents(value: object) -> list[dict[str, Any]]:
    """Return `{"id", "score"}` for ids, (id, score) pairs, or objects with both."""
    return [document(each) for each in safe_access.items(value, MAX_DOCUMENTS)]


def document(value: Any, is_id: Callable[[str], bool] = bool) -> dict[str, Any]:
    """Return one document; `is_id` decides whether a bare text may be shown as id."""
    if issubclass(type(value), tuple) and tuple.__len__(value) == 2:
        first, second = tuple.__iter__(value)
        score = values.real(second)
        if score is not None:
            return {"id": document(first, is_id)["id"], "score": score}
    if type(value) in (str, int):
        shown = type(value) is int or is_id(value)
        return {"id": values.label(value) if shown else None, "score": None}
    found = safe_access.attributes(value, (*_KEYS, *_SCORES))
    key = next((found[name] for name in _KEYS if name in found), None)
    score = next((found[name] for name in _SCORES if name in found), None)
    return {"id": values.label(key), "score": values.real(score)}


def looks_like_id(value: str) -> bool:
    """Return whether a text is a document id rather than content."""
    return 0 < len(value) <= MAX_DOCUMENT_ID and not any(map(str.isspace, value))


def listed(result: object) -> object:
    """Return the list of documents in a search result, or `None`.

    It is the result itself, or an attribute of a usual name.
    """
    if safe_access.is_sequence(result):
        return result
    found: Any = result
    for _ in range(2):  # some nest it one level deeper: `hits` in `hits`
        inside = safe_access.attributes(found, _LISTS)
        found = next((inside[name] for name in _LISTS if name in inside), None)
        if safe_access.is_sequence(found):
            (first, *others) = safe_access.items(found, 2) or [None]
            # One list per query, and there was one query.
            return first if safe_access.is_sequence(first) and not others else found
    return None


CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("confidence",), values.ratio),
    **dict.fromkeys(
        (
            "llm_tokens_used",
            "llm_prompt_tokens",
            "llm_completion_tokens",
            "llm_cached_tokens",
            "llm_cache_creation_tokens",
            "llm_reasoning_tokens",
            "time_to_first_token_ms",
            "thinking_budget",
            "top_k",
            "result_count",
        ),
        values.count,
    ),
    **dict.fromkeys(("llm_cost_usd", "llm_duration_seconds", "timeout_seconds"), values.real),
    **dict.fromkeys(("reasoning", "query"), _long),
    **dict.fromkeys(("partial_output", "request_parameters"), values.plain_dict),
    "tool_call_ids": _labels,
    "documents": documents,
    **dict.fromkeys(("degraded", "enable_thinking"), flag),
    "status": _status,
    **dict.fromkeys(
        (
            "decision_type",
            "stage",
            "outcome",
            "error_code",
            "llm_provider",
            "llm_model",
            "finish_reason",
            "tool_call_id",
            "collection",
            "degraded_reason",
        ),
        values.label,
    ),
}
"""Field name → function that returns a valid value or None."""

LISTS: Final = frozenset({"input_messages", "output_messages", "tool_definitions"})
"""Fields with content, recorded whole."""
_LLM: Final = frozenset(name for name in CHECKS if name.startswith("llm_"))
OF_CALLS: Final[dict[str, frozenset[str]]] = {
    "llm": _LLM
    | {
        "enable_thinking",
        "thinking_budget",
        "time_to_first_token_ms",
        "finish_reason",
        "input_messages",
        "output_messages",
        "tool_definitions",
        "request_parameters",
        "tool_call_ids",
        "error_code",
    },
    "tool": frozenset({"tool_call_id", "error_code"}),
    "step": frozenset({"error_code", "partial_output", "confidence"}),
    "retrieval": frozenset(
        {
            "query",
            "collection",
            "top_k",
            "result_count",
            "documents",
            "degraded",
            "degraded_reason",
            "error_code",
        }
    ),
}
"""Kind of call → fields that belong to the call; others belong to the execution."""
