"""Hook for tenacity that records the same events as `@retry`."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracereel._redact import values
from tracereel._runtime import guard
from tracereel.resilience.backoff import EXPONENTIAL, FIXED
from tracereel.resilience.external_loops import observe
from tracereel.resilience.policy import ERROR, LOW_CONFIDENCE, TIMEOUT, is_timeout
from tracereel.resilience.wrapped_functions import error_text

if TYPE_CHECKING:
    from tenacity import RetryCallState


def before_sleep(agent: str | None = None) -> "Callable[[RetryCallState], None]":
    """Return a `before_sleep` hook that records an `agent.retry.attempted` event for each retry.

    Example:
        @traced_agent("parsing_agent")
        @tenacity.retry(stop=tenacity.stop_after_attempt(3), before_sleep=before_sleep())
        def parse(prompt: str) -> Parsed: ...

    Args:
        agent: name in the events. Default: the decorated agent, or the surrounding one.
    """
    name = values.label(agent)

    def hook(state: "RetryCallState") -> None:
        with guard.Guard("tenacity"):
            error = state.outcome.exception() if state.outcome is not None else None
            if error is not None:
                reason, text = TIMEOUT if is_timeout(error) else ERROR, error_text(error)
            else:
                # Retried because of its result; the predicate gives no reason.
                reason, text = LOW_CONFIDENCE, "the result was not accepted"
            action = state.next_action
            observe(
                function=state.fn,
                agent=name,
                attempt=state.attempt_number,
                error=text,
                reason=reason,
                strategy=_strategy(state.retry_object),
                delay=action.sleep if action is not None else 0.0,
                now_ns=time.time_ns(),
                cause=error,
                state=state,
            )

    return hook


def _strategy(retrying: Any) -> str:
    """Map tenacity's wait class to a strategy of the contract; others keep their name."""
    kind = values.type_name(getattr(retrying, "wait", None))
    if kind in ("wait_fixed", "wait_none"):
        return FIXED
    return EXPONENTIAL if "exponential" in kind else kind
