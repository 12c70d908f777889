"""Replay: the program's code runs, external calls do not."""

import asyncio
import random
import socket
import threading
import time
from typing import Any

import pytest

import tracereel
from tests.support.replay_agents import AGENTS, run
from tests.support.replay_trial import record, replay
from tests.support.replay_world import world
from tracereel import traced_agent, traced_decision, traced_tool
from tracereel.tape import (
    DivergenceError,
    NetworkBlockedError,
    TapeEndedError,
    TapeError,
    boundary,
    load,
)
from tracereel.tape import format as tape_format

made: list[str] = []


@traced_tool("search", effect="read")
def search(query: str) -> dict[str, Any]:
    made.append(query)
    return {"query": query, "draw": random.random()}


@traced_tool("send", effect="write")
def send(text: str) -> str:
    made.append(f"send {text}")
    return f"sent {random.random()}"


@traced_agent("a")
def agent(topic: str) -> Any:
    found = search(topic)
    return found, send(str(found["draw"]))


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
@pytest.mark.parametrize("name", list(AGENTS))
def test_every_agent_of_the_corpus_replays_identically_or_reports_divergence(
    name: str, exact: bool
) -> None:
    output, tape = record(name, 7, exact=exact)
    trial = replay(name, output, tape)

    assert trial.verdict in ("identical", "diverged"), f"{trial.output}\nnot {trial.recorded}"
    assert trial.asked == 0


def test_nothing_is_called_and_the_result_is_the_same(taped: Any) -> None:
    first, tape = taped(lambda: agent("tea"))
    made.clear()
    with tracereel.replay(tape) as run:
        again = agent("tea")

    assert again == first
    assert made == []
    assert (run.report.served, run.report.live, run.report.identical) == (2, 0, True)


def test_tape_names_its_entry_point(taped: Any, tmp_path: Any) -> None:
    first, tape = taped(lambda: agent("tea"))
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)
    with tracereel.replay(path) as run:
        again = run.call()

    assert again == first
    assert load(path).trace_id == tape.trace_id


def test_served_values_are_the_programs_own(taped: Any) -> None:
    @traced_agent("b")
    def changes() -> Any:
        first = search("x")
        first["more"] = 1
        return first, search("x")

    first, tape = taped(changes)
    with tracereel.replay(tape):
        assert changes() == first


def test_event_loop_waits_for_its_threads_in_a_replay(taped: Any) -> None:
    """Since Python 3.12 with a time limit, which must not expire at once."""

    @traced_agent("b")
    async def leaves_a_thread() -> Any:
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, threading.Event().wait, 0.1)
        return search("x")

    first, tape = taped(lambda: asyncio.run(leaves_a_thread()))
    with tracereel.replay(tape) as run:
        assert asyncio.run(leaves_a_thread()) == first

    assert run.report.identical


def test_sleeps_and_time_limits_take_no_time(taped: Any) -> None:
    @traced_tool("slow", effect="read")
    async def slow() -> str:
        await asyncio.sleep(0.02)
        return "done"

    @traced_agent("c")
    async def patient(factor: float) -> Any:
        await asyncio.sleep(0.02 * factor)
        time.sleep(0.001 * factor)  # noqa: ASYNC251 - programs do it
        try:
            return await asyncio.wait_for(slow(), 5 * factor)
        except TimeoutError:
            return "late"

    first, tape = taped(lambda: asyncio.run(patient(1)))
    with tracereel.replay(tape) as run:
        began = time.monotonic()
        again = asyncio.run(patient(500))
        took = time.monotonic() - began

    assert first == again == "done"
    assert took < 5
    assert run.report.identical


def test_a_time_limit_that_was_hit_is_hit_again(taped: Any) -> None:
    @traced_tool("hangs", effect="read")
    async def hangs() -> None:
        await asyncio.sleep(30)

    @traced_agent("d")
    async def limited() -> str:
        try:
            async with asyncio.timeout(0.01):
                await hangs()
        except TimeoutError:
            return "late"
        return "in time"

    first, tape = taped(lambda: asyncio.run(limited()))
    with tracereel.replay(tape):
        assert asyncio.run(limited()) == first == "late"


def test_exceptions_are_raised_again_also_for_retry_loops(taped: Any) -> None:
    @traced_tool("flaky", effect="read")
    def flaky() -> str:
        made.append("flaky")
        if len(made) < 3:
            raise ConnectionError(f"down {len(made)}")
        return "up"

    @traced_agent("e")
    def tries() -> Any:
        said = []
        for _ in range(5):
            try:
                return said, flaky()
            except ConnectionError as error:
                said.append(str(error))
        return said

    first, tape = taped(tries)
    made.clear()
    with tracereel.replay(tape):
        assert tries() == first == (["down 1", "down 2"], "up")
    assert made == []


def test_a_changed_argument_is_named_with_its_difference_and_line(taped: Any) -> None:
    _, tape = taped(lambda: agent("tea"))
    with pytest.raises(DivergenceError) as caught, tracereel.replay(tape):
        agent("coffee")

    divergence = caught.value.divergence
    assert (divergence.kind, divergence.name, divergence.position) == ("changed", "search", 1)
    assert str(divergence.differences[0]) == 'query: "tea" → "coffee"'
    assert "test_replay.py" in str(divergence.location)
    assert "in agent" in str(divergence.location)


def test_a_divergence_that_the_program_swallows_is_raised_at_the_end(taped: Any) -> None:
    @traced_agent("f")
    def swallows(times: int) -> Any:
        try:
            return [search("same") for _ in range(times)]
        except BaseException:
            return "all well"

    _, tape = taped(lambda: swallows(1))
    with pytest.raises(DivergenceError, match="not on the tape"), tracereel.replay(tape):
        assert swallows(2) == "all well"


def test_retry_loops_do_not_take_a_divergence_for_a_failure(taped: Any) -> None:
    @traced_agent("g")
    def stubborn(query: str) -> Any:
        for _ in range(3):
            try:
                send(query)
                return search(query)
            except Exception:
                made.append("again")
        return None

    _, tape = taped(lambda: stubborn("x"))
    made.clear()
    with pytest.raises(DivergenceError), tracereel.replay(tape):
        stubborn("y")

    assert made == []


def test_a_different_result_of_the_run_is_reported(taped: Any) -> None:
    suffix = ["!"]

    @traced_agent("j")
    def shouts() -> str:
        return search("x")["query"] + suffix[0]

    _, tape = taped(shouts)
    suffix[0] = "?"
    with pytest.raises(DivergenceError, match="the result of the run"), tracereel.replay(tape):
        shouts()
    with tracereel.replay(tape, compare_output=False) as run:
        shouts()
    assert run.report.identical


def test_the_network_is_blocked_and_using_it_is_reported(taped: Any) -> None:
    address: list[Any] = []

    @traced_agent("k")
    def connects() -> str:
        if address:
            try:
                socket.create_connection(address[0], timeout=1).close()
            except Exception:
                return "swallowed"
        return "done"

    _, tape = taped(connects)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address.append(server.getsockname())
        with pytest.raises((NetworkBlockedError, DivergenceError)), tracereel.replay(tape) as run:
            connects()
        assert run.report.first is not None
        assert run.report.first.kind == "network"
        with tracereel.replay(tape, allow_network=["127.0.0.1"]) as run:
            assert connects() == "done"
        socket.create_connection(address[0], timeout=1).close()


@pytest.mark.parametrize("ends", ["well", "badly", "diverged"])
def test_the_network_is_free_again_however_a_replay_ended(taped: Any, ends: str) -> None:
    _, tape = taped(lambda: agent("tea"))
    try:
        with tracereel.replay(tape):
            if ends == "badly":
                raise KeyError(ends)
            agent("tea" if ends == "well" else "coffee")
    except (KeyError, DivergenceError):
        pass
    sleep, began = time.sleep, time.time()

    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
    assert sleep.__module__ == "time"
    assert began > 1_700_000_000


def test_code_that_has_changed_since_is_noted(taped: Any) -> None:
    @traced_agent("a")
    def other(topic: str) -> Any:
        return agent.__wrapped__(topic)  # type: ignore[attr-defined]

    _, tape = taped(lambda: agent("tea"))
    with tracereel.replay(tape) as run:
        run.call()
    assert run.report.notes == []
    with tracereel.replay(tape) as run:
        run.call(other)

    assert "the code of" in run.report.notes[0]
    assert run.report.identical


def test_different_decision_is_reported(taped: Any) -> None:
    choice = ["left"]

    @traced_decision("way")
    def way() -> str:
        return choice[0]

    @traced_agent("p")
    def walks() -> str:
        way()
        return "there"

    _, tape = taped(walks)
    choice[0] = "right"
    with pytest.raises(DivergenceError, match="decision") as caught, tracereel.replay(tape):
        walks()

    assert caught.value.divergence.name == "way"


def test_a_tape_that_was_cut_replays_up_to_the_cut(taped: Any) -> None:
    @traced_agent("q")
    def asks() -> Any:
        return [search(f"{n}")["query"] for n in range(5)]

    _, tape = taped(asks)
    cut = [record for record in tape.records if record.get("n", 0) <= 3 and record["r"] != "closed"]
    short = tape_format.parse([{"tape_id": "t", "part": 0, "records": cut}])
    with pytest.raises(TapeEndedError), tracereel.replay(short) as run:
        asks()

    assert run.report.served == 2
    assert run.report.ended_early
    assert run.report.divergences == []


@pytest.mark.parametrize(
    "name", ["loop_of_calls", "sub_agents_in_threads", "as_they_come", "streams_together"]
)
def test_a_tape_may_be_cut_anywhere(name: str) -> None:
    """Calls after the cut are no divergence, and nothing is called in their place."""
    _, tape = record(name, 5)
    whole = [each for each in tape.records if each["r"] != "closed"]
    for cut in range(3, len(whole), 3):
        parts = [{"tape_id": "t", "part": 0, "records": whole[:cut]}]
        short = tape_format.parse(parts)
        world.begin(0)
        run_again = tracereel.replay(short, stall_seconds=2.0)
        try:
            with run_again:
                run(AGENTS[name])
        except TapeEndedError:
            assert run_again.report.ended_early
        assert run_again.report.divergences == []
        assert world.asked == 0


def test_tasks_of_a_cut_tape_do_not_hang(taped: Any) -> None:
    output, tape = record("gathered", 3)
    del output
    first = min(call.end.order for call in tape.boundaries())
    cut = [each for each in tape.records if each.get("q", 0) <= first and each["r"] != "closed"]
    short = tape_format.parse([{"tape_id": "t", "part": 0, "records": cut}])
    world.begin(0)
    with pytest.raises(TapeEndedError), tracereel.replay(short):
        asyncio.run(AGENTS["gathered"]())

    assert world.asked == 0


def test_wrapped_clients_are_served(taped: Any) -> None:
    def call() -> dict[str, float]:
        made.append("client")
        return {"draw": random.random()}

    @traced_agent("r")
    def uses() -> Any:
        return boundary("client.get", "tool", {"path": "/x"}, call)

    first, tape = taped(uses)
    made.clear()
    with tracereel.replay(tape):
        assert uses() == first
    assert made == []


def test_replay_without_a_tape_is_refused_with_the_reason(taped: Any, tmp_path: Any) -> None:
    _, tape = taped(lambda: agent("x"), capture_content=False)
    with pytest.raises(TapeError, match="capture_content is off"), tracereel.replay(tape):
        pass
    with pytest.raises(TapeError, match="cannot be read"):
        tracereel.replay(tmp_path / "no.ndjson")
    (tmp_path / "empty.ndjson").write_text("{}\n")
    with pytest.raises(TapeError, match="no tape"):
        tracereel.replay(tmp_path / "empty.ndjson")
    with pytest.raises(ValueError, match="strict, report, live-after"):
        tracereel.replay(tape, mode="sometimes")


def test_a_replay_leaves_no_event_and_the_former_recorder_in_force(taped: Any) -> None:
    from tracereel.testing import EventRecorder

    _, tape = taped(lambda: agent("tea"))
    with EventRecorder() as events:
        with tracereel.replay(tape):
            agent("tea")
        assert events.events == []
        search("afterwards")
        assert len(events.events) == 1


def test_uvloop_replays_in_real_time(taped: Any) -> None:
    uvloop = pytest.importorskip("uvloop")

    @traced_tool("slow", effect="read")
    async def slow(n: int) -> float:
        await asyncio.sleep(0.001 * (3 - n))
        return random.random()

    @traced_agent("s")
    async def gathers() -> Any:
        return await asyncio.gather(*(slow(n) for n in range(3)))

    def run() -> Any:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(gathers())

    first, tape = taped(run)
    with tracereel.replay(tape):
        assert run() == first
