"""A replay affects only its own code: the rest keeps its network, clock and recorder."""

import _thread
import asyncio
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from datetime import UTC, datetime
from typing import Any

import pytest

import tracereel
from tracereel import traced_agent, traced_tool
from tracereel._core import recorder_overrides
from tracereel.tape import DivergenceError, NetworkBlockedError, NotAllowedError, fork
from tracereel.tape import format as tape_format
from tracereel.testing import EventRecorder

Work = Callable[[], Any]
made: list[str] = []


@traced_tool("search", effect="read")
def search(query: str) -> float:
    made.append(query)
    return random.random()


@traced_agent("asks")
def asks(name: str, times: int = 1) -> list[float]:
    return [search(f"{name} {number}") for number in range(times)]


@traced_agent("does", inputs={})
def does(work: Any = None) -> None:
    if work is not None:
        work()


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


@pytest.fixture
def tape(taped: Any) -> Any:
    return taped(does)[1]


@pytest.fixture
def reach() -> Iterator[Callable[[], str]]:
    """Connect to a local server; return the outcome."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:

        def connect() -> str:
            try:
                socket.create_connection(server.getsockname(), timeout=10).close()
            except NetworkBlockedError:
                return "blocked"
            return "reached"

        yield connect


@pytest.fixture
def elsewhere() -> Iterator[Callable[[Work], Any]]:
    """Run a function in a thread that existed before the replay; return its result."""
    jobs: list[tuple[Work, list[Any], threading.Event]] = []
    more = threading.Semaphore(0)

    def work() -> None:
        while more.acquire() and jobs:
            function, result, done = jobs.pop(0)
            result.append(function())
            done.set()

    thread = threading.Thread(target=work)
    thread.start()

    def run(function: Work) -> Any:
        result: list[Any] = []
        done = threading.Event()
        jobs.append((function, result, done))
        more.release()
        assert done.wait(20)
        return result[0]

    yield run
    more.release()
    thread.join(20)


def test_other_threads_keep_network_access_during_a_replay(
    tape: Any, reach: Work, elsewhere: Any
) -> None:
    with tracereel.replay(tape) as run:
        assert elsewhere(reach) == "reached"
        does()

    assert run.report.identical


def test_other_tasks_of_the_loop_keep_their_network(tape: Any, reach: Work) -> None:
    said: list[str] = []

    async def check_health(begin: asyncio.Event) -> None:
        await begin.wait()
        said.append(f"health check {reach()}")

    async def own() -> None:
        said.append(f"own task {reach()}")

    async def main() -> Any:
        begin = asyncio.Event()
        check = asyncio.create_task(check_health(begin))
        await asyncio.sleep(0)
        with tracereel.replay(tape, mode="report") as run:
            begin.set()
            await check
            await asyncio.create_task(own())
            does()
        return run.report

    report = asyncio.run(main())

    assert said == ["health check reached", "own task blocked"]
    assert [each.kind for each in report.divergences] == ["network"]


def in_a_thread(work: Work) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_a_thread_of_a_thread(work: Work) -> None:
    in_a_thread(lambda: in_a_thread(work))


def in_a_thread_and_an_empty_context(work: Work) -> None:
    in_a_thread(lambda: Context().run(work))


def in_an_empty_context(work: Work) -> None:
    Context().run(work)


def in_a_bare_thread(work: Work) -> None:
    done = threading.Event()

    def run() -> None:
        work()
        done.set()

    _thread.start_new_thread(run, ())
    assert done.wait(20)


def by_a_timer(work: Work) -> None:
    timer = threading.Timer(0.0, work)
    timer.start()
    timer.join()


def in_a_pool(work: Work) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def in_the_executor_of_a_loop(work: Work) -> None:
    async def main() -> None:
        await asyncio.get_running_loop().run_in_executor(None, work)

    asyncio.run(main())


def in_a_task_with_an_empty_context(work: Work) -> None:
    async def task() -> None:
        work()

    async def main() -> None:
        await asyncio.create_task(task(), context=Context())

    asyncio.run(main())


WAYS = [
    in_a_thread,
    in_a_thread_of_a_thread,
    in_a_thread_and_an_empty_context,
    in_an_empty_context,
    in_a_bare_thread,
    by_a_timer,
    in_a_pool,
    in_the_executor_of_a_loop,
    in_a_task_with_an_empty_context,
]


@pytest.mark.parametrize("way", WAYS)
def test_threads_and_tasks_of_replayed_code_have_no_network(
    way: Callable[[Work], None], tape: Any, reach: Work
) -> None:
    said: list[str] = []
    with tracereel.replay(tape, mode="report") as run:
        way(lambda: said.append(reach()))
        does()

    assert said == ["blocked"]
    assert [each.kind for each in run.report.divergences] == ["network"]


def test_strictly_a_thread_that_uses_the_network_fails_the_replay(tape: Any, reach: Work) -> None:
    with pytest.raises(DivergenceError, match="the network was used"), tracereel.replay(tape):
        does(lambda: in_a_thread(reach))


@pytest.mark.parametrize("began", ["before", "within"])
def test_thread_pool_jobs_follow_the_context_of_their_submitter(
    began: str, tape: Any, reach: Work, elsewhere: Any
) -> None:
    with ThreadPoolExecutor(1) as pool:
        if began == "before":
            pool.submit(int).result()
        with tracereel.replay(tape, mode="report"):
            own = pool.submit(reach).result()
            others = elsewhere(lambda: pool.submit(reach).result())

    assert (own, others) == ("blocked", "reached")


def test_calls_of_other_threads_are_made_and_recorded_during_a_replay(
    tape: Any, elsewhere: Any
) -> None:
    with EventRecorder() as events, tracereel.replay(tape) as run:
        elsewhere(lambda: search("of another request"))
        does()

    assert made == ["of another request"]
    assert [each["tool_name"] for each in events.get_events("agent.tool.called")] == ["search"]
    assert run.report.identical


def test_calls_of_other_threads_are_not_part_of_a_fork(taped: Any, elsewhere: Any) -> None:
    _, tape = taped(lambda: asks("own"))
    made.clear()
    with EventRecorder(), fork(tape, at=1) as run:
        elsewhere(lambda: search("of another request"))
        asks("own")

    arguments = [run.tape.data(call.arguments) for call in run.tape.boundaries()]
    assert arguments == [{"query": "own 0"}]
    assert made == ["of another request", "own 0"]


def test_other_threads_keep_the_real_clock(tape: Any, elsewhere: Any) -> None:
    with tracereel.replay(tape, freeze=True, mode="report"):
        before = time.time()
        elsewhere(lambda: time.sleep(0.001))
        assert time.time() == before
        time.sleep(3600)
        assert time.time() == before + 3600
        assert elsewhere(time.time) < before + 1800


def test_a_program_that_configures_itself_while_it_is_replayed_is_served(
    taped: Any, tmp_path: Any
) -> None:
    first, tape = taped(lambda: asks("own"))
    made.clear()
    with EventRecorder(), tracereel.replay(tape) as run:
        tracereel.configure(spool_dir=tmp_path, endpoint="http://127.0.0.1:9", exit_timeout=0.0)
        assert asks("own") == first

    assert made == []
    assert run.report.identical


def test_replays_at_a_time_have_their_own_day_whichever_ends_first(taped: Any) -> None:
    @traced_agent("dated")
    def dated() -> int:
        return datetime.now(UTC).year

    _, tape = taped(dated)
    years: dict[int, int] = {}

    def again(year: int, begun: threading.Event, go_on: threading.Event) -> None:
        records = [
            {**each, "started": f"{year}-06-01T00:00:00Z"} if each["r"] == "run" else each
            for each in tape.records
        ]
        old = tape_format.parse([{"tape_id": tape.tape_id, "part": 0, "records": records}])
        with tracereel.replay(old, freeze=True, compare_output=False):
            begun.set()
            go_on.wait(10)
            years[year] = dated()

    events = [(threading.Event(), threading.Event()) for _ in range(2)]
    threads = [
        threading.Thread(target=again, args=(2001 + number, *pair))
        for number, pair in enumerate(events)
    ]
    for thread, (begun, _) in zip(threads, events, strict=True):
        thread.start()
        assert begun.wait(10)
    for thread, (_, go_on) in zip(threads, events, strict=True):
        go_on.set()
        thread.join(10)

    assert years == {2001: 2001, 2002: 2002}
    assert datetime.now(UTC).year > 2002
    assert time.time.__module__ == "time"


def test_concurrent_replays_are_independent(taped: Any) -> None:
    recorded = {name: taped(lambda name=name: asks(name, 50)) for name in ("one", "two")}
    made.clear()
    together = threading.Barrier(2)

    def again(name: str) -> bool:
        first, tape = recorded[name]
        with tracereel.replay(tape) as run:
            together.wait(20)
            same = asks(name, 50) == first
        return same and run.report.identical

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(again, recorded)) == [True, True]
    assert made == []
    assert threading.Thread.start.__module__ == "threading"
    assert time.sleep.__module__ == "time"


done_for_real: list[str] = []


@traced_tool("write", effect="write")
def write(text: str) -> str:
    done_for_real.append(text)
    return text


@traced_tool("unheard of", effect="write")
def unheard_of() -> None:
    raise AssertionError("a replay makes no call")


def test_a_thread_that_a_replay_leaves_behind_calls_nothing(
    taped: Any,
) -> None:
    refused: list[BaseException] = []
    go_on, ended = threading.Event(), threading.Event()
    diverges = False

    def work() -> None:
        write("first")
        begun.set()
        go_on.wait(30)
        try:
            write("second")
        except BaseException as error:
            refused.append(error)
        ended.set()

    @traced_agent("keeper")
    def keeper() -> None:
        threading.Thread(target=tracereel.carry(work)).start()
        begun.wait(30)
        if diverges:
            unheard_of()
        go_on.set()
        ended.wait(30)

    begun = threading.Event()
    _, tape = taped(keeper)
    for event in (begun, go_on, ended):
        event.clear()
    done_for_real.clear()
    diverges = True
    with pytest.raises(DivergenceError), tracereel.replay(tape):
        keeper()
    go_on.set()
    assert ended.wait(30)

    assert done_for_real == []
    assert "the replay of" in str(refused[0])
    write("of the program itself")
    assert done_for_real == ["of the program itself"]


def test_a_task_that_a_replay_leaves_behind_calls_nothing(taped: Any) -> None:
    diverges = False
    tasks: list[asyncio.Task[None]] = []

    async def later(go_on: asyncio.Event) -> None:
        write("first")
        await go_on.wait()
        write("second")

    @traced_agent("keeper")
    async def keeper(go_on: asyncio.Event) -> None:
        tasks.append(asyncio.create_task(later(go_on)))
        await asyncio.sleep(0)
        if diverges:
            unheard_of()
        go_on.set()
        await tasks[-1]

    async def recorded() -> None:
        await keeper(asyncio.Event())

    _, tape = taped(lambda: asyncio.run(recorded()))
    done_for_real.clear()
    diverges = True

    async def replayed() -> None:
        go_on = asyncio.Event()
        with pytest.raises(DivergenceError), tracereel.replay(tape):
            await keeper(go_on)
        go_on.set()
        with pytest.raises(NotAllowedError, match="is not called: the replay of"):
            await tasks[-1]
        await asyncio.sleep(0.001)  # time is real again
        write("of the program itself")

    asyncio.run(replayed())

    assert done_for_real == ["of the program itself"]


def test_a_replay_that_leaves_nothing_behind_is_gone_at_once(taped: Any) -> None:
    _, tape = taped(lambda: asks("tea", 3))
    before = len(recorder_overrides.in_force)  # threads left behind by other tests

    for _ in range(5):
        with tracereel.replay(tape):
            asks("tea", 3)

    assert len(recorder_overrides.in_force) <= before
