"""Divergence reports: the call, the recording, and the next step."""

import os
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import tracereel
from tracereel import traced_agent, traced_llm, traced_tool
from tracereel.cli import main
from tracereel.tape import DivergenceError, NetworkBlockedError, NotAllowedError, TapeError
from tracereel.tape import format as tape_format
from tracereel.tape.differences import differences, shown
from tracereel.tape.payloads import pack

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
def report_of(tape: Any) -> Any:
    """Return the report of a strict replay with a change in the program."""

    def report(change: str, mode: Any = "strict") -> str:
        changes.add(change)
        run = tracereel.replay(tape, mode=mode)
        try:
            with run:
                clerk("A-17")
        except (DivergenceError, NetworkBlockedError, NotAllowedError):
            pass
        return str(run.report)

    return report


def test_a_change_in_the_midst_of_a_long_prompt_is_seen(report_of: Any) -> None:
    report = report_of("prompt")

    assert "left its tape once" in report
    assert "call 1, clerk / clerk-model" in report
    assert f"messages[0].content, from character {len(RULES) + 4} on:" in report
    assert "Be polite. Be very brief.Be polite." in report
    assert "\n    was " in report
    assert "\n    now " in report


def test_the_line_of_the_program_is_shown(report_of: Any) -> None:
    assert 'ask([{"role": "system"' in report_of("prompt").splitlines()[-1]


def test_a_call_that_is_not_on_the_tape_is_shown_as_it_was_made(report_of: Any) -> None:
    report = report_of("extra")

    assert "call 2, clerk / find_order: this call is not on the tape" in report
    assert 'find_order(number="another")' in report


@pytest.mark.parametrize("mode", ["strict", "report", "live-after"])
def test_missing_call_is_reported_once_with_its_arguments(report_of: Any, mode: str) -> None:
    report = report_of("missing", mode)

    assert report.count("this call is on the tape and was not made") == 1
    assert "clerk / refund was called in its place" in report
    assert 'on the tape it was audit(text="order A-17"), and returned "noted"' in report


@pytest.mark.parametrize("mode", ["strict", "report"])
def test_earlier_divergence_is_reported_before_network_use(report_of: Any, mode: str) -> None:
    changes.add("network")
    report = report_of("prompt", mode)

    assert "call 1, clerk / clerk-model: the arguments are not those" in report
    if mode == "report":
        assert report.index("clerk / clerk-model") < report.index("192.0.2.1: the network")


def test_calls_after_blocked_network_use_are_not_reported_as_missing(report_of: Any) -> None:
    report = report_of("network")

    assert "192.0.2.1: the network was used outside of any recorded call" in report
    assert "--allow-network 192.0.2.1" in report
    assert "was not made" not in report


def test_tape_of_a_missing_program_is_an_error(tape: Any, tmp_path: Path, capsys: Any) -> None:
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
    said = capsys.readouterr().err
    assert "there is no module 'nobody' here" in said
    assert "Run this in the program's folder" in said


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


def test_replay_command_shows_differences_and_next_steps(
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
    said = capsys.readouterr()
    assert "--allow audit" in said.err
    assert "from call 3 on: 2 calls served, 0 made" in said.out
    assert "recorded as" in said.out


def test_blocked_tool_report_includes_the_divergence_before_it(
    tape: Any, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)
    changes.add("prompt")

    assert main(["replay", str(path), "--run", "--mode", "live-after"]) == 1
    said = capsys.readouterr()
    assert "clerk / audit would run for real" in said.err
    assert "call 1, clerk / clerk-model: the arguments are not those on the tape" in said.out


def test_options_that_change_nothing_are_named(tape: Any, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)
    fork = ["replay", str(path), "--fork"]

    assert main([*fork, "--argument", "temperature=1"]) == 1
    assert "'temperature' names no call; expected CALL.ARGUMENT=JSON" in capsys.readouterr().err
    assert main([*fork, "--mode", "report"]) == 1
    assert "a fork has no --mode report" in capsys.readouterr().err
    assert main([*fork, "--argument", "clerk-modle.temperature=1"]) == 0
    said = capsys.readouterr().out
    assert "no call 'clerk-modle' came by (there were clerk-model, find_order, audit," in said
    assert main([*fork, "--choose", "route=human"]) == 0
    assert "no decision 'route' came by (there was none)" in capsys.readouterr().out
    assert main(["replay", str(path), "--fork-at", "99"]) == 0
    assert "the run made 4 calls: there is no 99" in capsys.readouterr().out


def test_a_fork_reaches_the_hosts_that_are_named_and_no_others(
    tape: Any, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)
    changes.add("network")

    assert main(["replay", str(path), "--fork", "--allow-network", "192.0.2.7"]) == 1
    said = capsys.readouterr()
    assert "it was asked for '192.0.2.1'" in said.err


def test_environment_differences_are_noted(tape: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    other = {
        "python": "3.99.1",
        "libraries": {"pydantic": "0.1"},
        "environment": {"TZ": "Asia/Tokyo", "LANG": os.environ.get("LANG", "")},
    }
    records = [{**each, **other} if each["r"] == "run" else each for each in tape.records]
    old = tape_format.parse([{"tape_id": tape.tape_id, "part": 0, "records": records}])

    with pytest.raises(DivergenceError), tracereel.replay(old) as run:
        pass

    said = str(run.report)
    assert "recorded with Python 3.99.1; this is 3." in said
    assert "TZ was 'Asia/Tokyo' when it was recorded; here it is 'UTC'" in said
    assert "LANG" not in said or "LANG" not in os.environ


def test_objects_are_shown_as_a_program_would_write_them() -> None:
    @dataclass
    class Order:
        number: int
        when: date

    data = pack({"orders": (Order(7, date(2026, 1, 2)),), "error": ValueError("no")}, None).data

    assert shown(data) == (
        '{"orders": tuple(test_objects_are_shown_as_a_program_would_write_them.<locals>.Order('
        'number=7, when=date("2026-01-02"))), "error": ValueError("no")}'
    )
    assert shown({"plain": [1, "a"]}) == '{"plain":[1,"a"]}'


class Mood(Enum):
    GOOD = 1
    BAD = 2


@dataclass
class Item:
    price: Decimal


@dataclass
class Basket:
    items: list[Item]
    at: datetime
    mood: Mood


def test_object_differences_are_shown_as_python_expressions() -> None:
    def basket(price: str, hour: int, mood: Mood) -> Any:
        at = datetime(2026, 1, 2, hour, tzinfo=UTC)
        whole = Basket([Item(Decimal(price))], at, mood)
        more = {"pair": (1, price), "by": {7: price}, "raw": bytes([255, hour])}
        return pack({"basket": whole, "vector": np.arange(float(hour)), **more}, None).data

    found = differences(basket("9.90", 2, Mood.GOOD), basket("9.80", 3, Mood.BAD))

    assert [str(each) for each in found] == [
        'basket.items[0].price: decimal("9.90") → decimal("9.80")',
        'basket.at: datetime("2026-01-02T02:00:00+00:00") → datetime("2026-01-02T03:00:00+00:00")',
        "basket.mood: Mood.GOOD → Mood.BAD",
        "vector: array([0., 1.]) → array([0., 1., 2.])",
        'pair[1]: "9.90" → "9.80"',
        'by.7: "9.90" → "9.80"',
        "raw: b'\\xff\\x02' → b'\\xff\\x03'",
    ]
    # Another class or time zone is reported as a whole.
    naive = pack({"at": datetime(2026, 1, 2)}, None).data  # noqa: DTZ001
    aware = pack({"at": datetime(2026, 1, 2, tzinfo=UTC)}, None).data
    assert [each.where for each in differences(naive, aware)] == ["at"]
    other = pack({"at": Item(Decimal(1))}, None).data
    assert str(differences(naive, other)[0]).endswith('Item(price=decimal("1"))')
    errors = [pack({"e": each}, None).data for each in (ValueError("a"), ValueError("b"))]
    assert differences(*errors)[0].where == "e.args[0]"


@pytest.mark.parametrize("value", [lambda: str(uuid4()), time.time, lambda: datetime.now(UTC)])
def test_ids_and_times_that_are_new_in_every_run_are_recognised(taped: Any, value: Any) -> None:
    @traced_agent("ids")
    def ids() -> None:
        audit(value())

    _, tape = taped(ids)
    with tracereel.replay(tape, mode="report") as run:
        ids()

    assert "ids and times are new in every run, unless a traced tool gives them" in str(run.report)


def test_other_differences_are_not_taken_for_ids_or_times(report_of: Any) -> None:
    assert "new in every run" not in report_of("prompt")


def test_call_in_a_thread_without_context_is_reported(taped: Any) -> None:
    @traced_agent("pooled")
    def pooled() -> list[Any]:
        with ThreadPoolExecutor(1) as pool:
            return list(pool.map(find_order, ["A-17"]))

    _, tape = taped(pooled)
    with pytest.raises(DivergenceError, match=r"tracereel\.carry"), tracereel.replay(tape):
        pooled()


def test_options_of_a_re_execution_re_execute(tape: Any, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "run.tape.ndjson"
    tape.save(path)

    assert main(["replay", str(path), "--freeze"]) == 0
    assert "went as recorded" in capsys.readouterr().out
