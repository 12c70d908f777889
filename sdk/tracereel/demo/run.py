"""Runner of the demo pipeline."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import count

from tracereel.demo.appointment import (
    AppointmentAssistant,
    InvalidAnswerError,
    create_appointment,
    on_duty,
)
from tracereel.demo.script_writer import ScriptPlan, story_of, write_plan
from tracereel.demo.scripted_model import LLMTimeoutError, ScriptedModel


@dataclass(frozen=True, slots=True)
class RunReport:
    """Result of one run."""

    number: int
    trace_id: str | None
    outcome: str
    seconds: float
    prompt: str
    failed: bool


def run_demo(
    *,
    runs: int | None,
    interval: float,
    seed: int | None,
    sleep: Callable[[float], None] = time.sleep,
    pace: float = 1.0,
    today: date | None = None,
) -> Iterator[RunReport]:
    """Run the pipeline `runs` times (`None`: forever), `interval` seconds apart.

    The first run is always a successful booking, because newcomers replay that one. The second needs a
    retry and a fallback, and the third fails.
    """
    rng = random.Random(seed)  # noqa: S311 - a script, not a secret
    for number in count(1) if runs is None else range(1, runs + 1):
        if number > 1:
            sleep(interval)
        plan = write_plan(rng, today=today or datetime.now(UTC).date(), story=story_of(number))
        yield _run_once(number, plan, ScriptedModel(plan.script, rng, sleep, pace))


def _run_once(number: int, plan: ScriptPlan, model: ScriptedModel) -> RunReport:
    assistant = AppointmentAssistant(model)
    scenario = plan.scenario
    started = time.monotonic()
    try:
        with on_duty(assistant):
            booking = create_appointment(
                scenario.prompt, user_timezone=scenario.timezone, user_id=scenario.user_id
            )
        outcome, failed = booking.outcome, False
    except (LLMTimeoutError, InvalidAnswerError) as error:
        outcome, failed = f"failed: {error}", True
    return RunReport(
        number=number,
        trace_id=assistant.trace_id,
        outcome=outcome,
        seconds=time.monotonic() - started,
        prompt=scenario.prompt,
        failed=failed,
    )
