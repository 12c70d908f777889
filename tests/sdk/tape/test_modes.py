"""Divergence modes: report collects all, live-after makes real calls from there on."""

import asyncio
import random
import socket
from typing import Any

import pytest

import tracereel
from tracereel import traced_agent, traced_decision, traced_tool
from tracereel.tape import DivergenceError, NetworkBlockedError

made: list[str] = []


@traced_tool("search", effect="read")
def search(query: str) -> dict[str, Any]:
    made.append(query)
    return {"query": query, "draw": random.random()}


@traced_tool("send", effect="write")
def send(text: str) -> str:
    made.append(f"send {text}")
    return f"sent {random.random()}"


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


def test_report_mode_collects_all_divergences(taped: Any) -> None:
    @traced_agent("h")
    def several(first: str, second: str) -> Any:
        search(first)
        search("between")
        return search(second)["query"]

    _, tape = taped(lambda: several("a", "b"))
    with tracereel.replay(tape, mode="report") as run:
        several("x", "y")

    assert [(each.kind, each.position) for each in run.report.divergences] == [
        ("changed", 1),
        ("changed", 3),
    ]
    assert "left its tape 2 times" in str(run.report)


def test_live_after_makes_calls_from_the_first_divergence_on(taped: Any) -> None:
    @traced_agent("i")
    def asks(second: str) -> Any:
        return [search("first")["query"], search(second)["query"], search("third")["query"]]

    _, tape = taped(lambda: asks("second"))
    made.clear()
    with tracereel.replay(tape, mode="live-after") as run:
        assert asks("other") == ["first", "other", "third"]

    assert made == ["other", "third"]
    assert (run.report.served, run.report.live) == (1, 2)


@pytest.mark.parametrize(
    ("now", "kind", "served", "live"),
    [
        (["first", "other", "third"], "changed", 1, 2),
        (["first", "between", "second", "third"], "extra", 1, 3),
        (["first", "third"], "missing", 1, 1),
        (["second", "first", "third"], "out of order", 0, 3),
    ],
)
def test_live_after_names_the_first_divergence_and_makes_every_call_from_there_on(
    taped: Any, now: list[str], kind: str, served: int, live: int
) -> None:
    @traced_agent("i")
    def asks(queries: list[str]) -> Any:
        return [search(query)["query"] for query in queries]

    _, tape = taped(lambda: asks(["first", "second", "third"]))
    made.clear()
    with tracereel.replay(tape, mode="live-after") as run:
        assert asks(now) == now

    assert [each.kind for each in run.report.divergences] == [kind]
    assert (run.report.served, run.report.live) == (served, live)
    assert made == now[served:]
    assert run.report.live_from == served + 1
    if kind == "changed":
        assert 'query: "second" → "other"' in str(run.report)


def test_live_after_another_decision_makes_every_call_from_there_on(taped: Any) -> None:
    route = ["a"]

    @traced_decision("route")
    def decide() -> str:
        return route[0]

    @traced_agent("i")
    def asks() -> Any:
        search("first")
        decide()
        return search("second")["query"]

    _, tape = taped(asks)
    route[0] = "b"
    made.clear()
    with tracereel.replay(tape, mode="live-after") as run:
        asks()

    assert made == ["second"]
    assert (run.report.first.kind, run.report.live_from) == ("decision", 2)


def test_live_after_keeps_from_the_network_up_to_the_first_divergence(taped: Any) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()

    @traced_agent("i")
    def asks(query: str) -> None:
        search(query)
        socket.create_connection(address).close()

    _, tape = taped(lambda: asks("a"))
    with listener:
        with (
            pytest.raises(NetworkBlockedError),
            tracereel.replay(tape, mode="live-after") as kept,
        ):
            asks("a")
        with tracereel.replay(tape, mode="live-after") as free:
            asks("b")

    assert [each.kind for each in kept.report.divergences] == ["network"]
    assert [each.kind for each in free.report.divergences] == ["changed"]


def test_report_mode_continues_after_a_call_missing_on_the_tape(taped: Any) -> None:
    @traced_agent("h")
    def several(queries: list[str], text: str) -> Any:
        found = [search(query)["draw"] for query in queries]
        return found, send(text)

    (draws, sent), tape = taped(lambda: several(["a", "b"], "hello"))
    made.clear()
    with tracereel.replay(tape, mode="report", compare_output=False) as run:
        again = several(["a", "b", "c"], "goodbye")

    assert again == ([*draws, draws[-1]], sent)
    assert [each.kind for each in run.report.divergences] == ["extra", "changed"]
    assert "search #3 was given what search gave before, to go on" in str(run.report)
    assert made == []


def test_report_mode_reports_where_it_stops(taped: Any) -> None:
    @traced_agent("h")
    def maybe(*, also: bool) -> None:
        if also:
            send("never recorded")
        search("a")

    _, tape = taped(lambda: maybe(also=False))
    made.clear()
    with pytest.raises(DivergenceError), tracereel.replay(tape, mode="report") as run:
        maybe(also=True)

    assert "the run went no further: the tape has nothing to give for h / send" in str(run.report)
    assert made == []


def test_report_mode_gives_streams_and_tasks_a_call_more(taped: Any) -> None:
    @traced_tool("count", effect="read")
    def count(upto: int) -> Any:
        yield from range(upto)

    @traced_tool("later", effect="read")
    async def later(name: str) -> str:
        await asyncio.sleep(0)
        return name

    @traced_agent("h")
    async def both(times: int) -> Any:
        parts = [list(count(number)) for number in range(2, 2 + times)]
        return parts, [await later(str(number)) for number in range(times)]

    _, tape = taped(lambda: asyncio.run(both(1)))
    with tracereel.replay(tape, mode="report", compare_output=False) as run:
        again = asyncio.run(both(2))

    assert again == ([[0, 1], [0, 1]], ["0", "0"])
    assert [each.kind for each in run.report.divergences] == ["extra", "extra"]
