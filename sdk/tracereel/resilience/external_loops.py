"""Recording of retries by other libraries, reported by their hooks."""

import time
from typing import Any

from tracereel._core import closed_runs, context, error_details, external_retries
from tracereel._core import recorder as _recorder
from tracereel._redact import values
from tracereel.resilience.attempt_loop import count_retry, retry_event
from tracereel.resilience.policy import ERROR, LOW_CONFIDENCE, TIMEOUT, is_timeout
from tracereel.resilience.wrapped_functions import Function, agent_of, error_text

closed_runs.watching = True  # only hooks import this module


def observe(
    *,
    function: Function | None,
    agent: str | None,
    attempt: int,
    strategy: str,
    delay: float,
    cause: BaseException | None,
    state: Any,
    fallback_name: str | None = None,
) -> None:
    """Record that an attempt failed and will be retried.

    The event belongs to the execution around the loop. Without one, it belongs to the run of the
    failed attempt, and the next attempt continues that run. If the attempt recorded no run, the event
    is dropped and counted.

    Args:
        cause: exception of the attempt; the agents that failed with it are repeated. None if its
            result was rejected; no library gives a reason for that.
        state: tenacity's state of the loop, which shows whether an attempt is in progress.
    """
    recorder = _recorder.active()
    if recorder is None:
        return
    delay = max(delay, 0.0)
    around, run = context.current_execution(), None
    failed = error_details.failed_agents(cause) if cause is not None else []
    if around is None:
        run = closed_runs.behind(cause, getattr(state, "start_time", 0.0))
        if run is not None and run.last.kind == "agent":
            # Without an exception no failed agent was noted.
            failed = failed or [run.ended]
    if failed or run is not None:
        external_retries.announce(
            state=state, attempt=attempt + 1, delay=delay, failed=failed, run=run
        )
    around = run.last if run is not None else around
    if around is None:
        recorder.drop("no_execution")
        return
    tag = agent_of(function)
    name = agent or tag or around.agent_name or fallback_name or around.name
    reason, text = LOW_CONFIDENCE, "the result was not accepted"
    if cause is not None:
        reason, text = TIMEOUT if is_timeout(cause) else ERROR, error_text(cause)
    event = retry_event(
        agent=values.text(name, values.SHORT_LIMIT),
        attempt=attempt,
        error=text,
        reason=reason,
        strategy=strategy,
        delay=delay,
        now_ns=time.time_ns(),
    )
    if run is not None:
        run.add(event, recorder)
        return
    if tag is None:
        count_retry(around)
    around.emit(event)
