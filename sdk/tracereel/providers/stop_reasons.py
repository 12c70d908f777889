"""Mapping of provider stop reasons to canonical ones."""

import logging
from functools import lru_cache
from typing import Final, get_args

from tracereel.providers.base import Problem, StopReason

_log: Final = logging.getLogger("tracereel.providers")
# Without a handler, logging's last resort would print to standard error.
_log.addHandler(logging.NullHandler())

_OPENAI: Final[dict[str, StopReason]] = {
    "stop": "success",
    "tool_calls": "success",
    "function_call": "success",
    "length": "max_tokens",
    "content_filter": "refused",
    # Responses API: a status, and the reason if it is incomplete.
    "completed": "success",
    "max_output_tokens": "max_tokens",
    "failed": "error",
    "cancelled": "user_cancelled",
}

STOP_REASONS: Final[dict[str, dict[str, StopReason]]] = {
    "anthropic": {
        "end_turn": "success",
        "tool_use": "success",
        "max_tokens": "max_tokens",
        "stop_sequence": "success",
        "pause_turn": "paused",
        "refusal": "refused",
        "model_context_window_exceeded": "max_tokens",
    },
    "openai": _OPENAI,
    "azure_openai": _OPENAI,
    "google": {
        "STOP": "success",
        "MAX_TOKENS": "max_tokens",
        "SAFETY": "refused",
        "RECITATION": "refused",
        "BLOCKLIST": "refused",
        "PROHIBITED_CONTENT": "refused",
        "SPII": "refused",
        "IMAGE_SAFETY": "refused",
        "IMAGE_PROHIBITED_CONTENT": "refused",
        "IMAGE_RECITATION": "refused",
        "MODEL_ARMOR": "refused",
        "JAILBREAK": "refused",
        "LANGUAGE": "error",
        "MALFORMED_FUNCTION_CALL": "error",
        "MALFORMED_RESPONSE": "error",
        "UNEXPECTED_TOOL_CALL": "error",
        "TOO_MANY_TOOL_CALLS": "error",
        "NO_IMAGE": "error",
        "IMAGE_OTHER": "error",
    },
    # Amazon Bedrock stop reasons, which arrive through LangChain.
    "langchain": {
        "guardrail_intervened": "refused",
        "content_filtered": "refused",
    },
}
"""Provider → its stop reason → canonical stop reason."""

ALIASES: Final[dict[str, StopReason]] = {"max_turns": "max_tokens"}
"""Canonical stop reasons of other systems → ours."""

_EVERY_WORD: Final[dict[str, StopReason]] = {
    **ALIASES,
    **{word: word for word in get_args(StopReason)},
    **{word.lower(): meaning for table in STOP_REASONS.values() for word, meaning in table.items()},
}


def canonical_stop_reason(
    word: str | None, provider: str = "langchain"
) -> tuple[StopReason | None, Problem | None]:
    """Return the canonical stop reason; an unknown one is a success with a problem and a warning."""
    if word is None:
        return None, None
    found = STOP_REASONS.get(provider, {}).get(word) or _EVERY_WORD.get(word.lower())
    if found is not None:
        return found, None
    known = ", ".join(sorted(STOP_REASONS.get(provider) or _EVERY_WORD))
    message = f"stop reason {word[:80]!r} is not known (known: {known}); taken for a success"
    _warn(provider, message)
    return "success", Problem(code="unknown_stop_reason", message=message, raw=word)


@lru_cache(maxsize=256)
def _warn(provider: str, message: str) -> None:
    """Log an unknown stop reason once per word, so that a new one cannot flood the log."""
    _log.warning("tracereel: %s: %s", provider, message)
