"""Public functions for the SDK's Prometheus metrics."""

from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry

from tracereel._core import recorder as _recorder
from tracereel._core import remote_identity
from tracereel._runtime import guard
from tracereel._telemetry.metrics import metrics_of

_TOKEN_HEADERS: Final = (
    ("x-ratelimit-remaining-tokens",),
    ("anthropic-ratelimit-tokens-remaining",),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-output-tokens-remaining"),
)
"""OpenAI and compatible; Anthropic; Anthropic with separate limits (the smaller value is used)."""
_TOKEN_HEADER_NAMES: Final = tuple(name for names in _TOKEN_HEADERS for name in names)


def exposed_registry() -> CollectorRegistry:
    """Return the registry given to `configure`, else the default one."""
    # `active()` would configure the SDK as a side effect.
    recorder = _recorder._active  # noqa: SLF001
    if not isinstance(recorder, _recorder.Recorder):
        return REGISTRY
    given: CollectorRegistry | None = recorder._wiring["registry"]  # noqa: SLF001
    return given if given is not None else REGISTRY


def set_tokens_remaining(
    llm_provider: str, tokens: float, *, registry: CollectorRegistry | None = None
) -> None:
    """Set the remaining tokens of a provider's quota; the first call creates the series."""
    with guard.Guard("metrics"):
        chosen = registry if registry is not None else exposed_registry()
        metrics_of(chosen).set_tokens(llm_provider, tokens)


def tokens_remaining_from_headers(
    llm_provider: str, headers: object, *, registry: CollectorRegistry | None = None
) -> int | None:
    """Set and return the remaining tokens from a provider's rate-limit headers, or return `None`.

    Supports headers of OpenAI, compatible providers and Anthropic.
    """
    left = None
    with guard.Guard("metrics"):
        left = tokens_remaining(headers)
        if left is not None:
            set_tokens_remaining(llm_provider, left, registry=registry)
    return left


def tokens_remaining(headers: object) -> int | None:
    """Return the remaining tokens named in rate-limit headers, or None."""
    all_found = remote_identity.header_values(headers, _TOKEN_HEADER_NAMES)
    for names in _TOKEN_HEADERS:
        values = [value for name in names for value in all_found[name]]
        counts = [int(value) for value in values if _is_count(value)]
        if counts:
            return min(counts)
    return None


def _is_count(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) < 16
