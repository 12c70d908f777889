"""Forks: the start of a run from its tape, the rest live, with a change."""

import random
from dataclasses import dataclass
from typing import Any

import pytest

import tracereel
from tracereel import traced_agent, traced_decision, traced_llm, traced_tool
from tracereel.tape import NotAllowedError, Override, TapeError, boundary, fork
from tracereel.tape.overrides import result_like

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


def test_fork_refuses_side_effects_that_are_not_allowed_by_name(taped: Any) -> None:
    _, tape = taped(lambda: agent("tea"))
    made.clear()
    with pytest.raises(NotAllowedError, match="allow=\\['send'\\]"), fork(tape, at=2):
        agent("tea")
    assert made == []
    with fork(tape, at=2, allow=["send"]) as run:
        agent("tea")

    assert len(made) == 1
    assert (run.report.served, run.report.live) == (1, 1)


@pytest.mark.parametrize("effect", [None, "write", "irreversible"])
def test_tool_block_with_side_effects_needs_to_be_allowed_by_name(taped: Any, effect: Any) -> None:
    @traced_agent("b")
    def wipes() -> str:
        with traced_tool("wipe", effect=effect):
            made.append("wiped")
        return "done"

    _, tape = taped(wipes)
    made.clear()
    said = "the block of wipe cannot be served and would run for real"
    for again in (tracereel.replay(tape), fork(tape), tracereel.replay(tape, mode="report")):
        with pytest.raises(NotAllowedError, match=said), again:
            wipes()
        assert not again.report.identical
        assert "went as recorded" not in str(again.report)
    assert made == []
    with tracereel.replay(tape, allow=["wipe"]) as run:
        wipes()

    assert made == ["wiped"]
    assert run.report.identical


def test_a_block_of_a_tool_that_only_reads_runs_again(taped: Any) -> None:
    @traced_agent("b")
    def reads() -> str:
        with traced_tool("read", effect="read"):
            made.append("read")
        return "done"

    _, tape = taped(reads)
    made.clear()
    with tracereel.replay(tape) as run:
        reads()

    assert made == ["read"]
    assert run.report.identical


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


@traced_decision("route", candidates=["tea", "human"])
def route(found: dict[str, Any]) -> str:
    return "tea"


@traced_agent("waiter")
def waiter(topic: str) -> Any:
    found = search(topic)
    if route(found) == "human":
        return search("human")
    return search(f"more {found['draw']}"), search("last")


def test_without_a_number_a_fork_leaves_the_tape_where_the_change_leads(taped: Any) -> None:
    first, tape = taped(lambda: waiter("tea"))

    made.clear()
    with fork(tape) as run:
        assert waiter("tea") == first
    assert (made, run.report.live_from) == ([], None)
    with fork(tape, overrides=[Override("route", chosen="human")]) as run:
        waiter("tea")
    assert (made, run.report.live_from) == (["human"], 2)
    assert str(run.report).startswith(
        f"A branch of {tape.trace_id} from call 2 on: 1 call served, 1"
    )
    made.clear()
    with fork(tape, overrides=[Override(1, result={"draw": 5})]) as run:
        again = waiter("tea")
    assert made == ["more 5", "last"]
    assert run.report.divergences == []
    made.clear()
    with fork(tape, overrides=[Override("search", arguments={"query": "coffee"})]) as run:
        again = waiter("tea")
    assert made[0] == again[0]["query"] == "coffee"


def test_unused_override_is_noted(taped: Any) -> None:
    _, tape = taped(lambda: waiter("tea"))

    with fork(tape, overrides=[Override("rout", chosen="human"), Override(9, result=1)]) as run:
        waiter("tea")

    assert [note.partition(" came by")[0] for note in run.report.notes] == [
        "Note: no decision 'rout'",
        "Note: no call 9",
    ]


def test_overriding_arguments_of_a_call_without_arguments_is_an_error(
    taped: Any,
) -> None:
    @traced_agent("asks a client")
    def asks() -> Any:
        given = {"model": "small"}
        fixed = boundary("client.create", "llm", given, lambda: "fixed")
        return fixed, boundary("own.create", "llm", given, lambda model="small": model)

    _, tape = taped(asks)
    change = {"model": "large"}
    with fork(tape, overrides=[Override("own.create", arguments=change)]):
        assert asks() == ("fixed", "large")
    with (
        pytest.raises(NotAllowedError, match="a fork cannot change its model"),
        fork(tape, overrides=[Override("client.create", arguments=change)]),
    ):
        asks()


@dataclass
class Answer:
    text: str
    scores: dict[str, int]


@traced_llm("model")
def answers() -> Answer:
    return Answer("yes", {"sure": 3, "kind": 4})


def test_an_object_is_changed_by_its_fields(taped: Any) -> None:
    _, tape = taped(traced_agent("asks")(answers))

    changed = result_like(tape, "model", {"scores": {"sure": 1}})
    assert changed == Answer("yes", {"sure": 1, "kind": 4})
    assert result_like(tape, 1, "no") == "no"
    assert result_like(tape, "nobody", {"a": 1}) == {"a": 1}
    with pytest.raises(TapeError, match="Answer has no score; its fields are text, scores"):
        result_like(tape, 1, {"score": 1})
