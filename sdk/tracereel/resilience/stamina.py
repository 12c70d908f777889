"""A hook for stamina: code that already retries with it leaves the same events as `@retry`."""

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from tracereel import _guard
from tracereel.resilience._functions import error_text
from tracereel.resilience._observed import observe
from tracereel.resilience._policy import ERROR, TIMEOUT, is_timeout
from tracereel.resilience.backoff import EXPONENTIAL

if TYPE_CHECKING:
    from stamina.instrumentation import RetryDetails

_MAX_FRAMES: Final = 8


def on_retry(details: "RetryDetails") -> None:
    """A `RetryHook` of stamina: one `agent.retry.attempted` for each attempt to be repeated."""
    with _guard.Guard("stamina"):
        error = details.caused_by
        observe(
            function=None,
            agent=None,
            attempt=details.retry_num,
            error=error_text(error),
            reason=TIMEOUT if is_timeout(error) else ERROR,
            strategy=EXPONENTIAL,  # stamina has no other
            delay=details.wait_for,
            now_ns=time.time_ns(),
            fallback_name=details.name,
            cause=error,
            state=_state_of_loop(),
        )


def _state_of_loop() -> Any:
    """The state of the loop, which is one of tenacity's; null where it cannot be found.

    stamina does not hand it to its hooks. What it offers instead, a context manager that is left
    before the next attempt, is kept for ever by functions it decorates.
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
    """Add the hook to those stamina has (its own defaults, or what the program has set); once."""
    from stamina.instrumentation import get_on_retry_hooks, set_on_retry_hooks

    hooks = get_on_retry_hooks()
    if on_retry not in hooks:
        set_on_retry_hooks([*hooks, on_retry])


def uninstrument_stamina() -> None:
    """Take the hook away again."""
    from stamina.instrumentation import get_on_retry_hooks, set_on_retry_hooks

    set_on_retry_hooks([hook for hook in get_on_retry_hooks() if hook is not on_retry])
