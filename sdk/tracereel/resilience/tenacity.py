"""Hook for tenacity that records the same events as `@retry`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracereel._redact import values
from tracereel._runtime import guard
from tracereel.resilience.backoff import EXPONENTIAL, FIXED
from tracereel.resilience.external_loops import observe

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
            action = state.next_action
            observe(
                function=state.fn,
                agent=name,
                attempt=state.attempt_number,
                strategy=_strategy(state.retry_object),
                delay=action.sleep if action is not None else 0.0,
                cause=state.outcome.exception() if state.outcome is not None else None,
                state=state,
            )

    return hook


def _strategy(retrying: Any) -> str:
    """Map tenacity's wait class to a strategy of the contract; others keep their name."""
    kind = values.type_name(getattr(retrying, "wait", None))
    if kind in ("wait_fixed", "wait_none"):
        return FIXED
    return EXPONENTIAL if "exponential" in kind else kind
