"""Programs that keep to a budget of time, by `time.monotonic` or `perf_counter`, replay as they went."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from time import monotonic as now
from typing import Any

import pytest
import tenacity
import uvloop

import tracereel
from tests.support.waiting import wait_until
from tracereel import carry, traced_agent, traced_tool
from tracereel.tape import fork

PAUSE = 0.25
BUDGET = 0.62
"""Far from what two and three calls take: readings of clocks are not on the tape to the millisecond."""
CLOCKS: list[Callable[[], float]] = [
    lambda: time.monotonic(),
    lambda: time.perf_counter(),
    lambda: time.monotonic_ns() / 1e9,
    lambda: time.perf_counter_ns() / 1e9,
    lambda: now(),
]


@traced_tool("ask", effect="read")
def ask(number: int) -> int:
    time.sleep(PAUSE)
    return number


@traced_tool("ask_later", effect="read")
async def ask_later(number: int) -> int:
    await asyncio.sleep(PAUSE)
    return number


def replayed(tape: Any, function: Callable[[], Any]) -> Any:
    """What a frozen replay gives, which must go as recorded."""
    with tracereel.replay(tape, freeze=True) as run:
        result = function()
    assert run.report.identical, str(run.report)
    return result


def test_a_plain_program_makes_as_many_calls_as_its_budget_let_it(taped: Any) -> None:
    @traced_agent("hurried")
    def hurried() -> int:
        started, made = [clock() for clock in CLOCKS], 0
        while min(clock() - then for clock, then in zip(CLOCKS, started, strict=True)) < BUDGET:
            made = ask(made) + 1
        return made

    made, tape = taped(hurried)

    assert replayed(tape, hurried) == made


def test_an_asyncio_program_does_too_and_its_timers_work(taped: Any) -> None:
    @traced_agent("hurried")
    async def hurried() -> tuple[int, int]:
        started, made, late = time.monotonic(), 0, 0
        while time.monotonic() - started < BUDGET:
            try:
                async with asyncio.timeout(0.01):
                    await ask_later(-1)
            except TimeoutError:
                late += 1
            await asyncio.sleep(0.01)
            made = await ask_later(made) + 1
        return made, late

    made, tape = taped(lambda: asyncio.run(hurried()))

    assert replayed(tape, lambda: asyncio.run(hurried())) == made


def test_on_a_loop_whose_timers_are_real_it_does_too(taped: Any) -> None:
    @traced_agent("hurried")
    async def hurried() -> int:
        started, made = time.monotonic(), 0
        while time.monotonic() - started < BUDGET:
            made = await ask_later(made) + 1
            await asyncio.sleep(BUDGET * 2)
        return made

    def go() -> int:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(hurried())

    made, tape = taped(go)

    assert replayed(tape, go) == made


def test_a_program_with_threads_does_too_and_what_waits_for_them_works(taped: Any) -> None:
    def work(started: float) -> int:
        made = 0
        while time.monotonic() - started < BUDGET:
            made = ask(made) + 1
        return made

    @traced_agent("hurried")
    def hurried() -> list[int]:
        done: queue.Queue[int] = queue.Queue()
        started = time.monotonic()
        thread = threading.Thread(target=carry(lambda: done.put(work(started))))
        thread.start()
        first = done.get(timeout=20)
        thread.join(timeout=20)
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(carry(work), time.monotonic())]
            assert not wait(jobs, timeout=20).not_done
            return [first, *(job.result() for job in as_completed(jobs, timeout=20))]

    made, tape = taped(hurried)

    assert replayed(tape, hurried) == made


def test_what_keeps_to_a_time_for_the_program_does_too(taped: Any) -> None:
    @tenacity.retry(stop=tenacity.stop_after_delay(BUDGET), reraise=True)
    def never() -> None:
        tried.append(ask(len(tried)))
        raise ConnectionError("gone")

    tried: list[int] = []

    @traced_agent("stubborn")
    def stubborn() -> int:
        tried.clear()
        with pytest.raises(ConnectionError):
            never()
        return len(tried)

    made, tape = taped(stubborn)

    assert replayed(tape, stubborn) == made


def test_a_deadline_comes_also_where_nothing_of_the_tape_moves_the_clock(taped: Any) -> None:
    @traced_agent("patient")
    def patient() -> str:
        ask(1)
        never = threading.Event()
        deadline = time.monotonic() + BUDGET
        while time.monotonic() < deadline:
            if never.wait(0.02):
                return "it came"
        return "it did not come"

    said, tape = taped(patient)

    assert replayed(tape, patient) == said == "it did not come"


def test_it_never_goes_back(taped: Any) -> None:
    readings: list[float] = []

    @traced_agent("watcher")
    def watcher() -> None:
        for number in range(3):
            readings.append(time.monotonic())
            wait_until(lambda: time.monotonic() > readings[-1] + 0.01)
            readings.append(time.monotonic())
            ask(number)

    _, tape = taped(watcher)
    readings.clear()
    replayed(tape, watcher)

    assert readings == sorted(readings)
    assert readings[-1] - readings[0] >= 2 * PAUSE


def test_others_and_the_library_keep_their_own(taped: Any) -> None:
    @traced_agent("a")
    def agent() -> float:
        return float(ask(1))

    _, tape = taped(agent)
    seen: list[float] = []
    asked, answered = threading.Event(), threading.Event()

    def other() -> None:
        asked.wait(20)
        seen.append(time.monotonic())
        answered.set()

    thread = threading.Thread(target=other)
    thread.start()
    before = time.monotonic
    with tracereel.replay(tape, freeze=True):
        agent()
        time.sleep(600)  # takes no time in a replay
        inside = time.monotonic()
        loop = asyncio.new_event_loop()
        seen.append(loop.time())
        loop.close()
        asked.set()
        assert answered.wait(20)
    thread.join()

    assert all(each < inside - 500 for each in seen)
    assert time.monotonic is before


def test_in_a_fork_that_goes_on_live_time_goes_by(taped: Any) -> None:
    @traced_agent("hurried")
    def hurried() -> int:
        started, made = time.monotonic(), 0
        while time.monotonic() - started < BUDGET:
            made = ask(made) + 1
        return made

    _, tape = taped(hurried)

    with fork(tape, at=2, freeze=True) as run:
        made = hurried()
    assert (run.report.served, run.report.live) == (1, made - 1)
    # The time of the call that was served counts, and that of the others.
    assert 2 <= made <= 3
