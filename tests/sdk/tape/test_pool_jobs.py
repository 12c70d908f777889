"""Order of calls in jobs of a thread pool: none, unless one job was given to it after another."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tracereel
from tracereel import carry, traced_agent, traced_llm
from tracereel.tape import pool_jobs
from tracereel.tape.pool_jobs import results_before

PREFIX = [""]
TOPICS = ("tea", "mugs", "rain")


@traced_llm("model")
def ask(prompt: str) -> str:
    return f"answer to {prompt}"


class Turns:
    """Order in which the jobs ask."""

    def __init__(self, *topics: str) -> None:
        self._topics = topics
        self.all_given = threading.Event()
        """Set when every job was given to the pool."""
        self._ended = {topic: threading.Event() for topic in topics}

    def work(self, topic: str) -> str:
        assert self.all_given.wait(30)
        before = self._topics[: self._topics.index(topic)]
        for each in before:
            assert self._ended[each].wait(30)
        try:
            return ask(PREFIX[0] + topic)
        finally:
            self._ended[topic].set()


order = [Turns(*TOPICS)]


def work(topic: str) -> str:
    return order[0].work(topic)


@traced_agent("together")
def together(workers: int) -> list[str]:
    with ThreadPoolExecutor(workers) as pool:
        answers = pool.map(carry(work), TOPICS)
        order[0].all_given.set()
        return list(answers)


@traced_agent("within")
def within(workers: int) -> list[str]:
    def outer(topic: str) -> str:
        with ThreadPoolExecutor(1) as inner:
            return inner.submit(carry(work), topic).result()

    with ThreadPoolExecutor(workers) as pool:
        answers = pool.map(carry(outer), TOPICS)
        order[0].all_given.set()
        return list(answers)


@pytest.fixture(autouse=True)
def _unchanged() -> Any:
    yield
    PREFIX[0] = ""


def verdict_of(tape: Any, agent: Any, *topics: str) -> str:
    order[0] = Turns(*topics)
    with tracereel.replay(tape, mode="report") as run:
        run.call(lambda: agent(len(TOPICS)))
    return run.report.verdict


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("agent", [together, within])
def test_jobs_that_were_given_together_may_run_in_any_order(
    taped: Any, agent: Any, workers: int
) -> None:
    order[0] = Turns(*TOPICS)
    _, tape = taped(lambda: agent(workers))

    assert verdict_of(tape, agent, *reversed(TOPICS)) == "same"


@pytest.mark.parametrize("workers", [1, 3])
def test_changed_prompts_of_jobs_are_compared_with_those_most_alike(
    taped: Any, workers: int
) -> None:
    order[0] = Turns(*TOPICS)
    _, tape = taped(lambda: together(workers))
    PREFIX[0] = "Briefly "

    assert verdict_of(tape, together, *reversed(TOPICS)) == "prompt_changed"


def test_jobs_of_which_one_was_given_after_the_other_keep_their_order(taped: Any) -> None:
    topics = list(TOPICS)

    @traced_agent("one by one")
    def one_by_one() -> list[str]:
        with ThreadPoolExecutor(2) as pool:
            return sorted([pool.submit(carry(ask), topic).result() for topic in topics])

    _, tape = taped(one_by_one)
    topics.reverse()
    with tracereel.replay(tape, mode="report") as run:
        run.call(one_by_one)

    assert run.report.verdict == "changed"


def test_only_jobs_that_two_calls_do_not_share_separate_them() -> None:
    outer, one, other = (1, 0), (2, 3), (3, 4)

    assert results_before([], [], now=9) == 9
    assert results_before([outer, one], [outer, one], now=9) == 9
    assert results_before([outer], [outer, other], now=9) == 9
    assert results_before([outer, one], [outer, other], now=9) == 3
    assert results_before([outer, one], [], now=9) == 0


def test_jobs_inside_of_each_other_are_recorded_up_to_a_limit(taped: Any) -> None:
    def nested(depth: int) -> str:
        if not depth:
            return ask("deep")
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(carry(nested), depth - 1).result()

    @traced_agent("deep")
    def deep() -> str:
        return nested(pool_jobs.MAX_JOBS + 4)

    _, tape = taped(deep)

    (call,) = tape.boundaries()
    assert len(call.jobs) == pool_jobs.MAX_JOBS
