"""Retries and fallbacks as events: decorators, and hooks for tenacity and stamina.

Names are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tracereel.resilience.backoff import Strategy, exponential_backoff, fixed_delay
    from tracereel.resilience.fallbacks import fallback
    from tracereel.resilience.retries import retry
    from tracereel.resilience.stamina import instrument_stamina

__all__ = [
    "Strategy",
    "exponential_backoff",
    "fallback",
    "fixed_delay",
    "instrument_stamina",
    "retry",
]

_HOMES: Final = {
    "Strategy": "backoff",
    "exponential_backoff": "backoff",
    "fallback": "fallbacks",
    "fixed_delay": "backoff",
    "instrument_stamina": "stamina",
    "retry": "retries",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'tracereel.resilience' has no attribute {name!r}")
    value = getattr(import_module(f"tracereel.resilience.{home}"), name)
    globals()[name] = value
    return value
