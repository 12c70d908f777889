"""`tracereel fleet run`: verdicts and groups of recorded runs of a program that has changed."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests.support.desk import Desk

# In every tenth run each; desk(number, …) with a number of 3, 6, 9 … is for the seller.
ARGUMENT = (
    '["number", "total"])["total"]',
    '["number"] if number % 10 == 0 else ["number", "total"])["total"]',
)
PROMPT = (
    'f"What about {text}?"',
    'f"What about {text}?" + (" Be brief." if number % 10 == 1 else "")',
)
OUTPUT = ('"said": said}', '"said": "none" if number % 10 == 5 else said}')


def groups_of(report: dict[str, Any]) -> dict[tuple[str, str, str], set[str]]:
    return {
        (each["verdict"], each["cause"]["kind"], each["cause"]["place"]): set(each["runs"])
        for each in report["groups"]
    }


def test_sixty_runs_are_grouped_by_three_planted_changes(
    desk: Desk, runs: Path, tmp_path: Path
) -> None:
    ids = desk.record(runs, range(60))
    for change in (ARGUMENT, PROMPT, OUTPUT):
        desk.change(*change)
    page, junit = tmp_path / "report.html", tmp_path / "report.xml"

    report = desk.replayed(runs, "--html", page, "--junit", junit)

    expected = {
        ("changed", "changed", "desk / seller / find_order"): {
            ids[n] for n in range(60) if n % 10 == 0 and n % 3 == 0
        },
        ("prompt_changed", "changed", "desk / clerk / model-a"): {
            ids[n] for n in range(60) if n % 10 == 1 and n % 3
        },
        ("changed", "output", "desk"): {ids[n] for n in range(60) if n % 10 == 5},
    }
    assert groups_of(report) == expected
    planted = sum(map(len, expected.values()))
    assert report["counts"] == {
        "same": 60 - planted,
        "changed": 8,
        "prompt_changed": 4,
        "inconclusive": 0,
        "flaky": 0,
    }
    by_place = {each["cause"]["place"]: each for each in report["groups"]}
    argument = by_place["desk / seller / find_order"]
    assert argument["cause"]["argument"] == "fields[*]"
    assert argument["cause"]["code"].startswith("desk.py:")
    assert argument["cause"]["code"].endswith(" in seller")
    assert (argument["agents"], argument["pipelines"]) == ({"seller": 2}, {"desk": 2})
    assert argument["example"]["trace_id"] in argument["runs"]
    assert (report["status"], report["passed"], report["coverage"]) == (1, False, 1.0)
    assert not desk.counter.exists(), "the irreversible tool has run"

    suite = ET.parse(junit).getroot()
    assert suite.get("failures") == "2"
    assert len(suite.findall(".//failure")) == 2
    text = page.read_text()
    assert text.count("<article") == 3
    assert "<script" not in text
    verdicts = Path(f"{runs}.verdicts.ndjson")
    assert [verdicts.stat().st_mode & 0o777, page.stat().st_mode & 0o777] == [0o600, 0o600]

    tests = desk.folder / "replays"
    promoted = desk.fleet("promote", runs, "--directory", tests, "--group", "2", "--group", "3")
    assert promoted.returncode == 0, promoted.stderr
    assert len(list(tests.glob("test_*.py"))) == 2
    absent = desk.fleet("promote", runs, "--directory", tests, "--group", "4")
    assert (absent.returncode, "there is no group 4" in absent.stderr) == (2, True)
    outcome = desk.pytest(tests)
    assert "2 failed" in outcome.stdout, outcome.stdout
    assert "the arguments are not those on the tape" in outcome.stdout

    again = desk.fleet("report", verdicts, "--fail-on", "inconclusive", "--min-coverage", "0.9")
    assert again.returncode == 0, again.stderr
    assert "60 runs: 48 same, 8 changed, 4 prompt_changed; coverage 100.0%" in again.stdout
    assert again.stdout.rstrip().endswith("passed")
    strict = desk.fleet("report", verdicts, "--fail-on", "prompt_changed")
    assert strict.returncode == 1
    assert "failed: 4 runs are prompt_changed" in strict.stdout


@pytest.mark.parametrize(
    ("change", "why", "text"),
    [
        (("import os\n", "import os\nimport nowhere\n"), "not replayable", "nowhere"),
        (('@traced_tool("refund"', '# @traced_tool("refund"'), "not replayable", "refund"),
        (("import os\n", "import os\nos._exit(3)\n"), "died", "imported"),
    ],
)
def test_a_program_that_cannot_be_run_is_no_coverage(
    desk: Desk, runs: Path, change: tuple[str, str], why: str, text: str
) -> None:
    desk.record(runs, [1])
    desk.change(*change)

    report = desk.replayed(runs, "--repeats", "1")

    (group,) = report["groups"]
    assert (group["verdict"], group["cause"]["kind"]) == ("inconclusive", why)
    assert text in group["example"]["report"]
    assert (report["coverage"], report["status"]) == (0.0, 1)
    assert report["failures"] == ["coverage is 0.0%; expected 90.0%"]
    assert not desk.counter.exists()


def test_runs_that_die_hang_or_use_the_network_are_no_coverage(desk: Desk, runs: Path) -> None:
    ids = desk.record(runs, range(4))
    desk.change(
        "    said = seller",
        "    if number == 1:\n        os._exit(3)\n"
        "    while number == 2:\n        pass\n"
        "    if number == 3:\n        import socket\n"
        '        socket.create_connection(("192.0.2.1", 9))\n'
        "    said = seller",
    )

    temporary = desk.folder.parent / "temporary"
    temporary.mkdir()
    options = ("--time-limit", "3", "--repeats", "1", "--json")
    done = desk.fleet("run", runs, *options, TMPDIR=str(temporary))

    report = json.loads(done.stdout)
    assert list(temporary.iterdir()) == []
    assert {each["cause"]["kind"]: each["runs"] for each in report["groups"]} == {
        "died": [ids[1]],
        "time limit": [ids[2]],
        "network": [ids[3]],
    }
    assert (report["counts"]["same"], report["counts"]["inconclusive"]) == (1, 3)


def test_a_program_whose_import_starts_a_thread_has_a_process_per_run_and_is_named(
    desk: Desk, runs: Path
) -> None:
    desk.record(runs, range(4))
    desk.change(
        "import os\n",
        "import os\nimport threading\n"
        "threading.Thread(target=threading.Event().wait, name='poller', daemon=True).start()\n",
    )

    temporary = desk.folder.parent / "temporary"
    temporary.mkdir()
    done = desk.fleet("run", runs, "--json", TMPDIR=str(temporary))

    report = json.loads(done.stdout)
    assert report["counts"]["same"] == 4
    assert list(temporary.iterdir()) == []
    assert report["fresh_processes"] == ["importing desk leaves the threads poller running"]


def test_runs_have_a_directory_of_their_own_with_the_named_files(desk: Desk, runs: Path) -> None:
    (desk.folder / "texts").mkdir()
    (desk.folder / "texts" / "shop.txt").write_text("as before")
    desk.record(runs, range(3))
    desk.change(
        "    said = seller",
        '    assert Path("texts/shop.txt").read_text() == "as before"\n'
        '    Path("texts/shop.txt").write_text("changed")\n'
        '    Path("left-behind").write_text("by a run")\n'
        "    said = seller",
    )

    without = desk.replayed(runs)
    copied = desk.replayed(runs, "--copy", "texts")

    assert without["counts"]["changed"] == 3
    assert "FileNotFoundError" in without["groups"][0]["example"]["report"]
    assert copied["counts"]["same"] == 3
    assert (desk.folder / "texts" / "shop.txt").read_text() == "as before"
    assert not (desk.folder / "left-behind").exists()


def test_a_flaky_run_is_set_aside_by_name(desk: Desk, runs: Path, tmp_path: Path) -> None:
    ids = desk.record(runs, range(4))
    seen = tmp_path / "seen"
    desk.change(
        '"said": said}',
        f'"said": said if number != 2 or flip({str(seen)!r}) else "other"}}',
    )
    desk.source.write_text(
        desk.source.read_text()
        + "\n\ndef flip(name):\n    path = Path(name)\n    if path.exists():\n"
        "        return True\n    path.touch()\n    return False\n"
    )

    report = desk.replayed(runs, "--fail-on", "changed", "--min-coverage", "0.7")

    assert report["flaky"] == [{"trace_id": ids[2], "verdicts": ["changed", "same"]}]
    assert (report["groups"], report["counts"]["same"], report["status"]) == ([], 3, 0)
    assert report["coverage"] == 0.75


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "missing.fleet"), "cannot be read"),
        (("run", "desk.py"), "cannot be read: Not a gzipped file"),
        (("report", "desk.py"), "is no verdict"),
        (("report", "x", "--fail-on", "worse"), "'worse' is no verdict that can fail"),
        (("report", "x", "--min-coverage", "90"), "'90' is not a share"),
        (("run", "missing.fleet", "--copy", "../.."), "cannot be read"),
    ],
)
def test_misuse_is_explained(desk: Desk, words: tuple[str, ...], message: str) -> None:
    done = desk.fleet(*words)

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
