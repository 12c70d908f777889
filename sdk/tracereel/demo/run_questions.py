"""Runner of the demo SSE agent; follow-up questions use the thread of the first."""

import itertools
import json
import random
import time
from collections.abc import Callable, Iterator

from tracereel.demo.questions import CONVERSATIONS, QuestionAgent, ask, on_duty
from tracereel.demo.run import RunReport


def run_questions(
    *,
    runs: int | None,
    interval: float,
    seed: int | None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[RunReport]:
    """Ask `runs` questions (`None`: forever), `interval` seconds apart; the first one succeeds."""
    rng = random.Random(seed)  # noqa: S311 - a script, not a secret
    agent = QuestionAgent(sleep=sleep)
    numbers = itertools.count(1) if runs is None else iter(range(1, runs + 1))
    conversation = CONVERSATIONS[0]
    while True:
        thread_id: str | None = None
        for question in conversation:
            number = next(numbers, None)
            if number is None:
                return
            if number > 1:
                sleep(interval)
            started = time.monotonic()
            with on_duty(agent):
                outcome, thread_id = _read(ask(question.text, thread_id=thread_id))
            yield RunReport(
                number=number,
                trace_id=agent.trace_id,
                outcome=outcome,
                seconds=time.monotonic() - started,
                prompt=question.text,
                failed=thread_id is None,
            )
        conversation = rng.choice(CONVERSATIONS)


def _read(frames: Iterator[str]) -> tuple[str, str | None]:
    """Return the outcome of a response and its thread id, or `None` if it failed."""
    for frame in frames:
        name, data = frame.removeprefix("event: ").rstrip("\n").split("\ndata: ")
        if name == "done":
            done = json.loads(data)
            return f"answered from {len(done['sources'])} sources", done["threadId"]
        if name == "error":
            return f"failed: {json.loads(data)['message']}", None
    return "failed: the stream ended early", None
