"""Programs with a time budget by `time.monotonic` or `perf_counter` replay as recorded."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from time import monotonic as now
from types import SimpleNamespace
from typing import Any

import pytest
import tenacity
import uvloop

import tracereel
from tests.support.waiting import wait_until
from tracereel import carry, traced_agent, traced_tool
from tracereel.tape import fork, loops

PAUSE = 0.25
BUDGET = 0.62
CALLS = 3
"""Calls of `PAUSE` seconds that a program makes within `BUDGET` if the machine does not stall."""
STALL = 60.0
"""Seconds for which a machine seems to stall."""
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


def recorded_without_stall(taped: Any, function: Callable[[], Any], expected: Any) -> Any:
    """Record until every call of the budget was made; return the tape.

    A tape has the times at which calls ended, not the clock readings in between: a program that
    was stalled outside of its calls made fewer than its tape accounts for.
    """
    for _ in range(10):
        result, tape = taped(function)
        if result == expected:
            return tape
    raise AssertionError(f"every recording was stalled: {result!r} instead of {expected!r}")


def replayed(tape: Any, function: Callable[[], Any]) -> Any:
    """Return the result of a frozen replay, which must go as recorded."""
    with tracereel.replay(tape, freeze=True) as run:
        result = function()
    assert run.report.identical, str(run.report)
    return result


def test_plain_program_makes_the_recorded_number_of_calls(taped: Any) -> None:
    @traced_agent("hurried")
    def hurried() -> int:
        started, made = [clock() for clock in CLOCKS], 0
        while min(clock() - then for clock, then in zip(CLOCKS, started, strict=True)) < BUDGET:
            made = ask(made) + 1
        return made

    tape = recorded_without_stall(taped, hurried, CALLS)

    assert replayed(tape, hurried) == CALLS


@pytest.mark.parametrize("place", ["before the run", "after a reading before it", "in the run"])
def test_a_stall_before_the_first_reading_adds_no_calls(
    place: str, taped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled, real = [0.0], time.monotonic

    @traced_agent("hurried")
    def hurried() -> int:
        if place == "in the run":
            stalled[0] += STALL
        started, made = time.monotonic(), 0
        while time.monotonic() - started < BUDGET:
            made = ask(made) + 1
        return made

    def after_a_stall() -> int:
        if place == "after a reading before it":
            time.monotonic()
        if place != "in the run":
            stalled[0] += STALL
        return hurried()

    tape = recorded_without_stall(taped, hurried, CALLS)
    monkeypatch.setattr(loops, "time", SimpleNamespace(monotonic=lambda: real() + stalled[0]))

    assert replayed(tape, after_a_stall) == CALLS


def test_a_run_begins_at_its_recorded_time_after_a_sleep(taped: Any) -> None:
    seen: list[float] = []

    @traced_agent("hurried")
    def hurried() -> int:
        seen.append(time.time())
        started, made = time.monotonic(), 0
        while time.monotonic() - started < BUDGET:
            made = ask(made) + 1
        return made

    def after_a_sleep() -> int:
        before = time.monotonic()
        time.sleep(600)  # takes no time in a replay
        assert time.monotonic() - before > 599
        made = hurried()
        assert time.monotonic() - before > 599 + CALLS * PAUSE
        return made

    tape = recorded_without_stall(taped, hurried, CALLS)

    assert replayed(tape, after_a_sleep) == CALLS
    assert seen[-1] == pytest.approx(seen[-2], abs=PAUSE)


def test_asyncio_program_keeps_its_budget_and_timers(taped: Any) -> None:
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

    expected = (CALLS, CALLS)
    tape = recorded_without_stall(taped, lambda: asyncio.run(hurried()), expected)

    assert replayed(tape, lambda: asyncio.run(hurried())) == expected


def test_loop_with_real_timers_makes_the_recorded_number_of_calls(taped: Any) -> None:
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


def test_threaded_program_makes_the_recorded_number_of_calls(taped: Any) -> None:
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

    expected = [CALLS, CALLS]
    tape = recorded_without_stall(taped, hurried, expected)

    assert replayed(tape, hurried) == expected


def test_tenacity_stop_after_delay_makes_the_recorded_number_of_calls(taped: Any) -> None:
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

    tape = recorded_without_stall(taped, stubborn, CALLS)

    assert replayed(tape, stubborn) == CALLS


def test_deadline_expires_without_calls_on_the_tape(taped: Any) -> None:
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


def test_frozen_clock_is_monotonic(taped: Any) -> None:
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


def test_other_threads_and_the_library_keep_the_real_clock(taped: Any) -> None:
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


def test_time_passes_in_the_live_part_of_a_fork(taped: Any) -> None:
    @traced_agent("hurried")
    def hurried() -> int:
        started, made = time.monotonic(), 0
        while time.monotonic() - started < BUDGET:
            made = ask(made) + 1
        return made

    tape = recorded_without_stall(taped, hurried, CALLS)

    with fork(tape, at=2, freeze=True) as run:
        made = hurried()
    assert (run.report.served, run.report.live) == (1, made - 1)
    # The duration of the served call counts, and so does that of the others.
    assert 2 <= made <= 3
