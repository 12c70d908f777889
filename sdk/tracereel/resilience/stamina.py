"""Hook for stamina that records the same events as `@retry`."""

import sys
from typing import TYPE_CHECKING, Any, Final

from tracereel._runtime import guard
from tracereel.resilience.backoff import EXPONENTIAL
from tracereel.resilience.external_loops import observe

if TYPE_CHECKING:
    from stamina.instrumentation import RetryDetails

_MAX_FRAMES: Final = 8


def on_retry(details: "RetryDetails") -> None:
    """Record an `agent.retry.attempted` event for each retry (a `RetryHook`)."""
    with guard.Guard("stamina"):
        observe(
            function=None,
            agent=None,
            attempt=details.retry_num,
            strategy=EXPONENTIAL,  # stamina's only strategy
            delay=details.wait_for,
            fallback_name=details.name,
            cause=details.caused_by,
            state=_state_of_loop(),
        )


def _state_of_loop() -> Any:
    """Return tenacity's state of the loop, or None if not found.

    stamina does not pass it to hooks. Its alternative, a context manager that is left before the
    next attempt, is never released for decorated functions.
    """
    kind = getattr(sys.modules.get("tenacity"), "RetryCallState", None)
    frame = sys._getframe(1)  # noqa: SLF001
    for _ in range(_MAX_FRAMES):
        if kind is None or frame.f_back is None:
            return None
        frame = frame.f_back
        if str(frame.f_globals.get("__name__")).partition(".")[0] == "stamina":
            return next((each for each in frame.f_locals.values() if type(each) is kind), None)
    return None


def instrument_stamina() -> None:
    """Add the hook to stamina's current hooks, once."""
    from stamina.instrumentation import get_on_retry_hooks, set_on_retry_hooks

    hooks = get_on_retry_hooks()
    if on_retry not in hooks:
        set_on_retry_hooks([*hooks, on_retry])


def uninstrument_stamina() -> None:
    """Remove the hook."""
    from stamina.instrumentation import get_on_retry_hooks, set_on_retry_hooks

    set_on_retry_hooks([hook for hook in get_on_retry_hooks() if hook is not on_retry])
