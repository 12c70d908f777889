"""Verdicts of re-executions, and their reports as data."""

import contextlib
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import tracereel
from tracereel import traced_agent, traced_llm, traced_tool
from tracereel.cli import main
from tracereel.tape import Report, Tape, TapeError, fork, parse
from tracereel.tape.divergence import ReplayStoppedError

changes: set[str] = set()


@traced_llm("model-a")
def ask(prompt: str) -> str:
    return "refund"


@traced_tool("find_order", effect="read")
def find_order(number: str) -> dict[str, Any]:
    return {"number": number, "total": 42.5}


@traced_tool("refund", effect="irreversible")
def refund(number: str, amount: float) -> str:
    return f"{amount} for {number}"


class Unknown:
    """Class that the codec does not know."""


@traced_agent("clerk")
def clerk(number: str) -> Any:
    ask("be polite" if "prompt" in changes else "be brief")
    found = find_order(number.lower() if "argument" in changes else number)
    if "network" in changes:
        urllib.request.urlopen("http://192.0.2.1:9/rates")
    if "raise" in changes:
        raise KeyError("total")
    if "exit" in changes:
        raise SystemExit(3)
    said = refund(number, found["total"])
    if "unknown" in changes:
        return Unknown()
    return said.upper() if "output" in changes else said


@pytest.fixture(autouse=True)
def _unchanged() -> None:
    changes.clear()


@pytest.fixture
def tape(taped: Any) -> Tape:
    found: Tape = taped(lambda: clerk("A-17"))[1]
    return found


def report_of(tape: Tape, *made: str, mode: Any = "report", **options: Any) -> Report:
    changes.update(made)
    run = tracereel.replay(tape, mode=mode, **options)
    with contextlib.suppress(ReplayStoppedError, KeyError, SystemExit, TapeError), run:
        run.call()
    return run.report


@pytest.mark.parametrize("mode", ["strict", "report"])
@pytest.mark.parametrize(
    ("change", "verdict", "why"),
    [
        ("", "same", []),
        ("argument", "changed", ["changed"]),
        ("output", "changed", ["output"]),
        ("prompt", "prompt_changed", ["changed"]),
        ("network", "inconclusive", ["network"]),
        ("raise", "changed", ["missing", "output"]),
        ("exit", "changed", ["missing", "output"]),
    ],
)
def test_verdict_of_a_change(tape: Tape, mode: str, change: str, verdict: str, why: Any) -> None:
    report = report_of(tape, change, mode=mode)

    assert report.verdict == verdict
    whys = [each.why for each in report.reasons]
    assert whys == (why[:1] if mode == "strict" else why)
    assert report.identical == (verdict == "same")


def test_prompts_and_tools_that_changed_are_a_change(tape: Tape) -> None:
    assert report_of(tape, "prompt", "argument").verdict == "changed"


def test_a_refused_tool_is_inconclusive(tape: Tape) -> None:
    report = report_of(tape, mode="live-after", overrides=())
    assert report.verdict == "same"

    changes.add("prompt")
    run = tracereel.replay(tape, mode="live-after")
    with contextlib.suppress(ReplayStoppedError), run:
        run.call()
    assert run.report.verdict == "inconclusive"
    assert [each.why for each in run.report.reasons] == ["refused"]


def test_a_cut_tape_is_inconclusive_even_if_the_run_makes_no_further_call(tape: Tape) -> None:
    records = [each for each in tape.records if each["r"] != "closed"]
    cut = parse([{"tape_id": tape.tape_id, "part": 0, "records": records}])

    report = report_of(cut)
    assert (report.verdict, report.reasons[0].why) == ("inconclusive", "cut tape")
    assert str(report).startswith("Inconclusive: the tape of ")


def test_a_tape_that_cannot_be_replayed_is_inconclusive(tape: Tape) -> None:
    records = [*tape.records, {"r": "problem", "state": "no", "reason": "content was off"}]
    refused = parse([{"tape_id": tape.tape_id, "part": 0, "records": records}])

    report = report_of(refused)
    assert (report.verdict, report.reasons[0].why) == ("inconclusive", "not replayable")
    assert "content was off" in report.reasons[0].text


def test_a_replay_that_never_began_is_inconclusive(tape: Tape) -> None:
    report = tracereel.replay(tape).report

    assert (report.verdict, report.reasons[0].why) == ("inconclusive", "not begun")


def test_a_branch_has_no_verdict_of_its_own(tape: Tape) -> None:
    with fork(tape, allow=["refund"]) as run:
        run.call()

    assert run.report.verdict == "inconclusive"
    assert [each.why for each in run.report.reasons] == ["branch"]


def test_what_was_not_compared_is_in_the_line_of_the_verdict(taped: Any) -> None:
    changes.add("unknown")
    _, tape = taped(lambda: clerk("A-17"))

    report = report_of(tape, "unknown")
    assert "not compared: the result of the run" in str(report).splitlines()[0]
    assert report.to_json()["not_compared"]


def test_the_exception_of_the_program_is_shown_beside_the_divergence(tape: Tape) -> None:
    report = report_of(tape, "raise", mode="strict")

    assert report.first is not None
    assert report.first.kind == "missing"
    assert 'The program raised KeyError("total"), at ' in str(report)
    assert "in clerk" in str(report).splitlines()[-1]


def test_a_report_is_plain_data(tape: Tape) -> None:
    report = json.loads(json.dumps(report_of(tape, "argument", "output").to_json()))

    assert report["verdict"] == "changed"
    assert [call["name"] for call in report["calls"]] == ["model-a", "find_order", "refund"]
    assert {call["how"] for call in report["calls"]} == {"served"}
    changed, output = report["divergences"]
    assert (changed["call_kind"], changed["place"]) == ("tool", "clerk / find_order")
    assert changed["differences"] == [{"where": "number", "recorded": '"A-17"', "now": '"a-17"'}]
    assert changed["code"]["file"] == __file__
    assert changed["code"]["source"].startswith("found = find_order(")
    assert output["kind"] == "output"
    assert report["output"]["value"] == "42.5 FOR A-17"
    assert report["recorded_output"]["value"] == "42.5 for A-17"


def test_arguments_of_a_changed_model_call_are_at_hand(tape: Tape) -> None:
    first = report_of(tape, "prompt").first

    assert first is not None
    assert first.arguments == ({"prompt": "be brief"}, {"prompt": "be polite"})
    assert first.call_kind == "llm"


def test_the_command_prints_the_report_as_json(tape: Tape, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)

    assert main(["replay", str(path), "--run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "same"
    changes.add("prompt")
    assert main(["replay", str(path), "--run", "--json", "--mode", "report"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "prompt_changed"
    assert main(["replay", str(path), "--run", "nowhere:nothing", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"], report["reasons"][0]["why"]) == ("inconclusive", "not replayable")
