"""Runner of the demo LangGraph orchestrator with scripted models."""

import itertools
import random
import time
import uuid
from collections.abc import Callable, Iterator

from tracereel.demo.orchestrator import TOO_MANY, Orchestrator, answer, on_duty
from tracereel.demo.orchestrator_script import REQUESTS, models_for
from tracereel.demo.run import RunReport


def run_orchestrator(
    *,
    runs: int | None,
    interval: float,
    seed: int | None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[RunReport]:
    """Send `runs` requests (`None`: forever), `interval` seconds apart: each one once, then at random."""
    rng = random.Random(seed)  # noqa: S311 - a script, not a secret
    for number in itertools.count(1) if runs is None else range(1, runs + 1):
        if number > 1:
            sleep(interval)
        request = REQUESTS[number - 1] if number <= len(REQUESTS) else rng.choice(REQUESTS)
        orchestrator = Orchestrator(models_for(request.prompt, sleep))
        session_id = f"session_{uuid.uuid4().hex[:12]}"
        started = time.monotonic()
        with on_duty(orchestrator):
            said = answer(
                request.prompt, attachments=list(request.attachments), session_id=session_id
            )
        yield RunReport(
            number=number,
            trace_id=orchestrator.trace_id,
            outcome="limit reached" if said == TOO_MANY else f"answered by {request.agent}",
            seconds=time.monotonic() - started,
            prompt=request.prompt,
            failed=False,
        )
