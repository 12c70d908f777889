"""Forcing a decision to a recorded candidate or to an explicitly new value."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import tracereel
from tracereel import current_decision, traced_agent, traced_decision, traced_tool
from tracereel.cli import main
from tracereel.redaction import Redaction
from tracereel.tape import Override, Tape, TapeError, fork, load
from tracereel.tape.export import redacted

ran: list[str] = []


@traced_tool("serve", effect="read")
def serve(what: str) -> str:
    ran.append(what)
    return f"here is {what}"


@traced_decision("drink", candidates=["tea", "coffee"])
def drink() -> str:
    return "tea"


@traced_agent("waiter")
def waiter() -> str:
    ran.append("begun")
    return serve(drink())


class Size(Enum):
    SMALL = 1
    LARGE = 2


@traced_decision("size", candidates=list(Size))
def size() -> Size:
    return Size.SMALL


@traced_agent("barista")
def barista() -> str:
    return serve(size().name)


@traced_decision("slot", candidates=["10:00", "11:30"])
def slot() -> dict[str, Any]:
    return {"chosen": "10:00", "confidence": 0.9}


@traced_agent("clerk")
def clerk() -> str:
    return serve(slot()["chosen"])


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def run_again(tape: Tape, function: Any, *overrides: Override) -> Any:
    with fork(tape, overrides=overrides, keep=False) as run:
        return run.call(function)


@pytest.mark.parametrize("again", [fork, tracereel.replay])
def test_a_value_that_is_no_candidate_is_refused_before_anything_runs(
    taped: Any, again: Any
) -> None:
    _, tape = taped(waiter)
    ran.clear()

    with pytest.raises(TapeError) as refused:
        again(tape, overrides=[Override("drink", chosen="cofee")])

    assert str(refused.value) == (
        '"cofee" is no candidate of the decision \'drink\' (did you mean "coffee"?): there were'
        ' "tea", "coffee"; any_value=True (--choose-any) takes others too'
    )
    assert ran == []


def test_recorded_candidates_and_explicitly_new_values_can_be_chosen(taped: Any) -> None:
    _, tape = taped(waiter)

    assert run_again(tape, waiter, Override("drink", chosen="coffee")) == "here is coffee"
    new = Override("drink", chosen="cocoa", any_value=True)
    assert run_again(tape, waiter, new) == "here is cocoa"


def test_a_branch_with_a_new_value_is_replayed_with_that_value(taped: Any) -> None:
    _, tape = taped(waiter)
    with fork(tape, overrides=[Override("drink", chosen="cocoa", any_value=True)]) as branch:
        branch.call(waiter)

    with tracereel.replay(branch.tape, overrides=[Override("drink", chosen="cocoa")]) as run:
        run.call(waiter)

    assert run.report.identical


def test_candidates_that_are_known_only_then_count_and_those_of_all_decisions_do(
    taped: Any,
) -> None:
    offers = [["a", "b"], ["b", "c"]]

    @traced_decision("offer")
    def take(number: int) -> str:
        current_decision().set(candidates=offers[number])
        return offers[number][0]

    @traced_agent("buyer")
    def buyer() -> list[str]:
        return [take(0), take(1)]

    _, tape = taped(buyer)
    assert run_again(tape, buyer, Override("offer", chosen="c")) == ["c", "c"]
    with pytest.raises(TapeError, match=r'"d" is no candidate .* there were "a", "b", "c";'):
        fork(tape, overrides=[Override("offer", chosen="d")])


def test_numbers_and_texts_are_different_candidates(taped: Any) -> None:
    @traced_decision("level", candidates=["1", "2"])
    def level() -> str:
        return "1"

    @traced_agent("guard")
    def guard() -> str:
        return level()

    _, tape = taped(guard)
    with pytest.raises(TapeError, match=r'^2 is no candidate .* there were "1", "2";'):
        fork(tape, overrides=[Override("level", chosen=2)])


def test_without_candidates_anything_may_be_chosen(taped: Any) -> None:
    @traced_decision("word")
    def word() -> str:
        return "yes"

    @traced_agent("speaker")
    def speaker() -> str:
        return word()

    _, tape = taped(speaker)
    assert run_again(tape, speaker, Override("word", chosen="anything")) == "anything"


@dataclass
class Plan:
    name: str
    steps: int


def test_any_value_may_be_chosen_if_the_function_returns_no_candidate(
    taped: Any,
) -> None:
    @traced_decision("plan", candidates=["short", "long"])
    def plan() -> Plan:
        current_decision().set(chosen="short")
        return Plan("short", 1)

    @traced_agent("planner")
    def planner() -> int:
        return plan().steps

    _, tape = taped(planner)
    assert run_again(tape, planner, Override("plan", chosen=Plan("endless", 9))) == 9


def test_an_object_that_has_its_choice_in_it_counts_by_that(taped: Any) -> None:
    _, tape = taped(clerk)

    other = Override("slot", chosen={"chosen": "11:30"})
    assert run_again(tape, clerk, other) == "here is 11:30"
    with pytest.raises(TapeError, match=r"12:00.* there were"):
        fork(tape, overrides=[Override("slot", chosen={"chosen": "12:00"})])


@pytest.mark.parametrize(
    ("agent", "choice", "given"),
    [
        ("waiter", "drink=coffee", "here is coffee"),
        ("barista", "size=LARGE", "here is LARGE"),
        ("barista", "size=2", "here is LARGE"),
        ("barista", "size=Size.LARGE", "here is LARGE"),
        ("clerk", "slot=11:30", "here is 11:30"),
    ],
)
def test_on_the_command_line_a_candidate_is_named_whatever_the_function_gives(
    taped: Any, tmp_path: Path, capsys: Any, agent: str, choice: str, given: str
) -> None:
    _, tape = taped(globals()[agent])
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)

    assert main(["replay", str(path), "--fork", "--choose", choice]) == 0

    assert f"result: '{given}'" in capsys.readouterr().out


def test_command_refuses_unknown_candidates_without_choose_any(
    taped: Any, tmp_path: Path, capsys: Any
) -> None:
    _, tape = taped(waiter)
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)
    ran.clear()

    assert main(["replay", str(path), "--fork", "--choose", "drink=cocoa"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("tracereel replay: \"cocoa\" is no candidate of the decision 'drink'")
    assert ran == []
    assert main(["replay", str(path), "--fork", "--choose-any", "drink=cocoa"]) == 0
    assert "result: 'here is cocoa'" in capsys.readouterr().out


def test_candidates_are_redacted_on_a_tape_and_in_its_export(taped: Any, tmp_path: Path) -> None:
    address = "jane.doe@example.com"

    @traced_decision("receiver", candidates=[address, "nobody"])
    def receiver() -> str:
        return address

    @traced_agent("mailer")
    def mailer() -> str:
        return receiver()

    for settings in ({}, {"redaction": Redaction(built_in=False)}):
        _, tape = taped(mailer, **settings)
        clean = redacted(tape)
        clean.save(tmp_path / "run.tape.ndjson")
        assert address not in (tmp_path / "run.tape.ndjson").read_text()
        assert load(tmp_path / "run.tape.ndjson").decisions[0].among is not None
        with pytest.raises(TapeError, match=r'"somebody" is no candidate'):
            fork(clean, overrides=[Override("receiver", chosen="somebody")])
