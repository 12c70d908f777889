"""Retries that somebody else's loop makes, told to us by its hooks."""

from typing import Any

from tracereel import _context, _failures, _recorder, _values
from tracereel.resilience import _announced, _closed_runs
from tracereel.resilience._functions import Function, agent_of
from tracereel.resilience._place import nearest_agent
from tracereel.resilience._run import count_retry, retry_event

_closed_runs.watching = True  # only hooks import this


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
    state: Any = None,
) -> None:
    """Record that an attempt failed and another one is due.

    The event belongs to the execution around the loop. Where nothing is around the loop, it belongs to
    the run that the attempt was, and the next attempt goes on with that run. An attempt that was none
    has no trace: its event is dropped and counted.

    Args:
        cause: what the attempt raised; the agents that failed with it are those to be repeated.
        state: tenacity's of the loop, which tells whether an attempt is under way.
    """
    recorder = _recorder.active()
    if recorder is None:
        return
    delay = max(delay, 0.0)
    around, run = _context.current_execution(), None
    failed = _failures.failed_agents(cause) if cause is not None else []
    if around is None:
        run = _closed_runs.behind(cause, getattr(state, "start_time", 0.0))
        if run is not None and run.kind == "agent":
            # Without an exception nobody has noted it.
            failed = failed or [run.ended]
    if failed or run is not None:
        _announced.announce(state=state, attempt=attempt + 1, delay=delay, failed=failed, run=run)
    around = run.last_execution() if run is not None else around
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
        delay=delay,
        now_ns=now_ns,
    )
    if run is not None:
        run.add(event, recorder)
        return
    if tag is None:
        count_retry(around)
    around.emit(event)
