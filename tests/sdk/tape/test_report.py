"""What a person reads when a replay leaves its tape: which call, what was recorded, what to do next."""

import urllib.request
from pathlib import Path
from typing import Any

import pytest

import tracereel
from tracereel import traced_agent, traced_llm, traced_tool
from tracereel.cli import main
from tracereel.tape import DivergenceError, TapeError
from tracereel.tape import format as tape_format

RULES = "Be polite. " * 40
changes: set[str] = set()


@traced_llm("clerk-model")
def ask(messages: list[dict[str, str]]) -> str:
    return f"refund, says {len(messages)}"


@traced_tool("find_order", effect="read")
def find_order(number: str) -> dict[str, Any]:
    return {"number": number, "total": 42.5}


@traced_tool("audit", effect="write")
def audit(text: str) -> str:
    return "noted"


@traced_tool("refund", effect="irreversible")
def refund(number: str, amount: float) -> str:
    return f"{amount} for {number}"


@traced_agent("clerk")
def clerk(number: str) -> str:
    rules = RULES + ("Be very brief." if "prompt" in changes else "Be brief.") + RULES
    ask([{"role": "system", "content": rules}, {"role": "user", "content": number}])
    if "extra" in changes:
        find_order("another")
    found = find_order(number)
    if "missing" not in changes:
        audit(f"order {number}")
    if "network" in changes:
        urllib.request.urlopen("http://192.0.2.1:9/rates")
    return refund(number, found["total"])


@pytest.fixture(autouse=True)
def _unchanged() -> None:
    changes.clear()


@pytest.fixture
def tape(taped: Any) -> Any:
    return taped(lambda: clerk("A-17"))[1]


@pytest.fixture
def told(tape: Any) -> Any:
    """The report of a strict replay with a change in the program."""

    def tell(change: str, mode: Any = "strict") -> str:
        changes.add(change)
        run = tracereel.replay(tape, mode=mode)
        try:
            with run:
                clerk("A-17")
        except DivergenceError:
            pass
        return str(run.report)

    return tell


def test_a_change_in_the_midst_of_a_long_prompt_is_seen(told: Any) -> None:
    report = told("prompt")

    assert "left its tape once" in report
    assert "call 1, clerk / clerk-model" in report
    assert f"messages[0].content, from character {len(RULES) + 4} on:" in report
    assert "Be polite. Be very brief.Be polite." in report
    assert "\n    was " in report
    assert "\n    now " in report


def test_the_line_of_the_program_is_shown(told: Any) -> None:
    assert 'ask([{"role": "system"' in told("prompt").splitlines()[-1]


def test_a_call_that_is_not_on_the_tape_is_shown_as_it_was_made(told: Any) -> None:
    report = told("extra")

    assert "call 2, clerk / find_order: this call is not on the tape" in report
    assert 'find_order(number="another")' in report


@pytest.mark.parametrize("mode", ["strict", "report", "live-after"])
def test_a_call_that_was_not_made_is_told_once_with_what_it_was(told: Any, mode: str) -> None:
    report = told("missing", mode)

    assert report.count("this call is on the tape and was not made") == 1
    assert "clerk / refund was called in its place" in report
    assert 'on the tape it was audit(text="order A-17"), and returned "noted"' in report


def test_what_follows_a_use_of_the_network_is_not_missing(told: Any) -> None:
    report = told("network")

    assert "192.0.2.1: the network was used outside of any recorded call" in report
    assert "--allow-network 192.0.2.1" in report
    assert "was not made" not in report


def test_a_tape_whose_program_is_not_there_says_so(tape: Any, tmp_path: Path, capsys: Any) -> None:
    records = [dict(each) for each in tape.records]
    for record in records:
        if "entry" in record:
            record["entry"] = "nobody:knows"
    lost = tape_format.parse([{"tape_id": tape.tape_id, "part": 0, "records": records}])
    path = tmp_path / "run.tape.ndjson"
    lost.save(path)

    with pytest.raises(TapeError, match="nobody:knows"), tracereel.replay(lost) as run:
        run.call()
    assert run.report.divergences == []
    assert main(["replay", str(path), "--run"]) == 1
    assert "No module named 'nobody'. Run this in the program's folder" in capsys.readouterr().err


class Clerk:
    @traced_agent("clerk")
    def serve(self, number: str) -> str:
        return number


def test_a_run_that_began_with_a_method_needs_a_function_that_begins_it(taped: Any) -> None:
    _, tape = taped(lambda: Clerk().serve("A-17"))

    run = tracereel.replay(tape)
    with pytest.raises(TapeError, match="its object is not on the tape"), run:
        run.call(Clerk.serve)
    with tracereel.replay(tape) as run:
        assert run.call(lambda number: Clerk().serve(number)) == "A-17"
    assert run.report.identical


def test_a_run_that_did_not_begin_did_not_go_as_recorded(taped: Any) -> None:
    _, tape = taped(lambda: Clerk().serve("A-17"))

    with pytest.raises(DivergenceError, match="did not begin"), tracereel.replay(tape) as run:
        pass
    assert not run.report.identical


def test_the_command_says_what_differs_and_what_to_do_next(
    tape: Any, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)
    assert main(["replay", str(path), "--run"]) == 0
    assert "went as recorded: 4 calls served" in capsys.readouterr().out

    changes.add("missing")
    assert main(["replay", str(path), "--run"]) == 1
    said = capsys.readouterr().out
    assert "\n  on the tape it was audit(" in said
    assert "All differences: --mode report" in said


def test_a_file_that_is_shown_or_is_not_there_is_explained(
    tape: Any, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)

    assert main(["replay", str(path)]) == 2
    assert f"tracereel replay {path} --run" in capsys.readouterr().err
    assert main(["replay", f"{path}.gone", "--run"]) == 1
    assert "there is no file" in capsys.readouterr().err


def test_a_tool_that_may_not_run_names_the_option(tape: Any, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)

    assert main(["replay", str(path), "--run", "--fork-at", "3"]) == 1
    assert "--allow audit" in capsys.readouterr().err
