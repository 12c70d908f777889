"""A hook for tenacity: code that already retries with it leaves the same events as `@retry`."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracereel import _guard, _values
from tracereel.resilience._functions import error_text
from tracereel.resilience._observed import observe
from tracereel.resilience._policy import ERROR, LOW_CONFIDENCE, TIMEOUT, is_timeout
from tracereel.resilience.backoff import EXPONENTIAL, FIXED

if TYPE_CHECKING:
    from tenacity import RetryCallState


def before_sleep(agent: str | None = None) -> "Callable[[RetryCallState], None]":
    """For `before_sleep=` of tenacity: one `agent.retry.attempted` for each attempt to be repeated.

    Example:
        @traced_agent("parsing_agent")
        @tenacity.retry(stop=tenacity.stop_after_attempt(3), before_sleep=before_sleep())
        def parse(prompt: str) -> Parsed: ...

    Args:
        agent: name in the events; else the agent decorated, or the agent around.
    """
    name = _values.label(agent)

    def hook(state: "RetryCallState") -> None:
        with _guard.Guard("tenacity"):
            error = state.outcome.exception() if state.outcome is not None else None
            if error is not None:
                reason, text = TIMEOUT if is_timeout(error) else ERROR, error_text(error)
            else:
                # Retried for its result: what was wrong with it only the predicate knows.
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
    """tenacity's waits by name: the contract knows two strategies, others keep their own name."""
    kind = _values.type_name(getattr(retrying, "wait", None))
    if kind in ("wait_fixed", "wait_none"):
        return FIXED
    return EXPONENTIAL if "exponential" in kind else kind
