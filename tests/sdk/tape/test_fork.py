"""Forks: the beginning of a run from its tape, the rest for real, with something changed."""

import random
from typing import Any

import pytest

import tracereel
from tracereel import traced_agent, traced_decision, traced_llm, traced_tool
from tracereel.tape import NotAllowedError, Override, fork

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


def test_nothing_above_read_runs_in_a_fork_unless_asked_for_by_name(taped: Any) -> None:
    _, tape = taped(lambda: agent("tea"))
    made.clear()
    with pytest.raises(NotAllowedError, match="allow=\\['send'\\]"), fork(tape, at=2):
        agent("tea")
    assert made == []
    with fork(tape, at=2, allow=["send"]) as run:
        agent("tea")

    assert len(made) == 1
    assert (run.report.served, run.report.live) == (1, 1)


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5])
def test_a_fork_serves_what_is_before_it_and_makes_the_rest(taped: Any, at: int) -> None:
    @traced_agent("m")
    def asks() -> Any:
        return [search(f"{n}") for n in range(4)]

    first, tape = taped(asks)
    made.clear()
    with fork(tape, at=at) as run:
        again = asks()

    assert again[: at - 1] == first[: at - 1]
    assert made == [f"{n}" for n in range(at - 1, 4)]
    assert run.tape.header["forked_from"]["trace_id"] == tape.trace_id
    assert run.tape.trace_id != tape.trace_id
    assert len(run.tape.boundaries()) == 4
    with tracereel.replay(run.tape):
        assert asks() == again


def test_a_fork_can_give_other_results_arguments_and_exceptions(taped: Any) -> None:
    asked: list[Any] = []

    @traced_llm("gpt")
    def ask(prompt: str, model: str = "small") -> str:
        asked.append((prompt, model))
        return f"{model} says {prompt}"

    @traced_agent("n")
    def chats() -> Any:
        found = search("facts")
        try:
            second = search("more")
        except TimeoutError:
            second = {"query": "none"}
        return ask(f"{found['query']} {second['query']}")

    _, tape = taped(chats)
    asked.clear()
    changes = [
        Override(1, result={"query": "other facts"}),
        Override(2, raises=TimeoutError()),
        Override("gpt", arguments={"model": "large"}),
    ]
    with fork(tape, at=3, overrides=changes) as run:
        assert chats() == "large says other facts none"

    assert asked == [("other facts none", "large")]
    assert run.report.live == 1


@pytest.mark.parametrize("number", [1, 2, 3])
def test_calls_after_one_whose_result_is_another_are_served_all_the_same(
    taped: Any, number: int
) -> None:
    @traced_agent("m")
    def asks() -> Any:
        return [search(f"{n}") for n in range(4)]

    first, tape = taped(asks)
    made.clear()
    changed = [Override(number, result="other")]
    wanted = [*first[: number - 1], "other", *first[number:]]
    with fork(tape, at=5, overrides=changed) as run:
        assert asks() == wanted
    assert run.tape.header["forked_from"]["overrides"] == [{"target": number, "result": '"other"'}]
    with tracereel.replay(tape, overrides=changed):
        assert asks() == wanted

    assert made == []


def test_an_argument_that_was_given_by_place_can_be_another(taped: Any) -> None:
    @traced_agent("m")
    def asks() -> Any:
        return search("tea")["query"]

    _, tape = taped(asks)
    with fork(tape, at=1, overrides=[Override("search", arguments={"query": "coffee"})]):
        assert asks() == "coffee"


def test_a_decision_can_be_forced_to_see_what_would_have_followed(taped: Any) -> None:
    @traced_decision("route", candidates=["short", "long"])
    def route(value: float) -> str:
        return "short"

    @traced_agent("o")
    def travels() -> Any:
        way = route(search("start")["draw"])
        return [search(f"{way} {n}")["query"] for n in range(1 if way == "short" else 3)]

    _, tape = taped(travels)
    with fork(tape, at=10, overrides=[Override("route", chosen="long")]) as run:
        assert travels() == ["long 0", "long 1", "long 2"]
    assert run.report.live == 3
    with tracereel.replay(tape) as run:
        travels()
    assert run.report.identical
