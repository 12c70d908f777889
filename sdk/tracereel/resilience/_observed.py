"""Retries that somebody else's loop makes, told to us by its hooks."""

from tracereel import _context, _failures, _recorder, _values
from tracereel.resilience import _slots
from tracereel.resilience._functions import Function, agent_of
from tracereel.resilience._place import nearest_agent
from tracereel.resilience._run import count_retry, retry_event


def observe(
    *,
    function: Function | None,
    agent: str | None,
    attempt: int,
    error: str,
    reason: str,
    strategy: str,
    delay: float,
    now_ns: int,
    fallback_name: str | None = None,
    cause: BaseException | None = None,
) -> None:
    """Record that an attempt failed and another one is due.

    The event belongs to the execution around the loop. Where the loop is around the agent and
    nothing is around the loop, each attempt is a trace of its own and there is none for this event:
    it is dropped and counted.

    Args:
        cause: what the attempt raised; the agents that failed with it are those to be repeated.
    """
    recorder = _recorder.active()
    if recorder is None:
        return
    if cause is not None and (failed := _failures.failed_agents(cause)):
        _slots.announce(failed, max(delay, 0.0))
    around = _context.current_execution()
    if around is None:
        recorder.drop("no_execution")
        return
    tag = agent_of(function)
    name = agent or tag or nearest_agent(around) or fallback_name or around.name
    event = retry_event(
        agent=_values.text(name, _values.SHORT_LIMIT),
        attempt=attempt,
        error=error,
        reason=reason,
        strategy=strategy,
        delay=max(delay, 0.0),
        now_ns=now_ns,
    )
    if tag is None:
        count_retry(around)
    around.emit(event)
