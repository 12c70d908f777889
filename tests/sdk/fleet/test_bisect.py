"""`tracereel bisect`: the first commit with which a run is replayed differently."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.sdk.fleet.test_baseline import git
from tests.support.desk import Desk
from tracereel.fleet.bisecting import BisectError, bisect
from tracereel.fleet.file import FleetFile
from tracereel.fleet.verdicts import RunVerdict


class History:
    """Commits 0 to 63, the run changes with one of them."""

    def __init__(self, first_bad: int, unknown: Any = ()) -> None:
        self.first_bad, self.unknown = first_bad, unknown
        self.commits = [str(number) for number in range(64)]
        self.replayed: set[str] = set()

    def __call__(self, commit: str) -> RunVerdict:
        self.replayed.add(commit)
        verdict: Literal["same", "changed", "inconclusive"] = (
            "changed" if int(commit) >= self.first_bad else "same"
        )
        if int(commit) in self.unknown:
            verdict = "inconclusive"
        return RunVerdict(trace_id="run", verdict=verdict)


@pytest.mark.parametrize("first_bad", range(1, 64))
def test_a_change_among_64_commits_is_found_with_7_replays(first_bad: int) -> None:
    history = History(first_bad)

    assert bisect(history.commits, history) == (str(first_bad), ())
    assert len(history.replayed) <= 7


@pytest.mark.parametrize("unknown", [range(28, 36), range(0, 64, 3), [31], []])
@pytest.mark.parametrize("first_bad", [1, 5, 32, 62])
def test_inconclusive_commits_are_passed_over(first_bad: int, unknown: Any) -> None:
    history = History(first_bad, set(unknown) - {0, 63})

    found, before = bisect(history.commits, history)

    assert str(first_bad) in (found, *before)
    assert int(found) not in history.unknown
    assert {int(each) for each in before} <= history.unknown


@pytest.mark.parametrize(("first_bad", "end"), [(0, "good"), (64, "bad")])
def test_revisions_that_enclose_no_change_are_refused(first_bad: int, end: str) -> None:
    history = History(first_bad)

    with pytest.raises(BisectError, match=f"with the {end} revision"):
        bisect(history.commits, history)


def test_the_commit_and_the_line_are_named(desk: Desk, runs: Path, tmp_path: Path) -> None:
    desk.record(runs, [3])
    (run,) = FleetFile(runs).runs()
    tape = tmp_path / "run.tape.ndjson"
    run.tape().save(tape)
    git(tmp_path, "init", "-q", "-b", "main")
    commits = []
    for number in range(6):
        if number == 4:
            desk.change('["number", "total"])', '["total"])')
        desk.source.write_text(f"{desk.source.read_text()}\n# {number}\n")
        git(tmp_path, "add", "program")
        git(tmp_path, "commit", "-q", "-m", f"commit {number}")
        commits.append(git(tmp_path, "rev-parse", "HEAD").strip())

    def bisected(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "tracereel", "bisect", str(tape), *words],
            cwd=desk.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    done = bisected("--good", commits[0], "--bad", "main", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["commit"], found["verdict"], found["unknown"]) == (commits[4], "changed", [])
    assert found["subject"] == "commit 4"
    assert found["cause"]["place"] == "desk / seller / find_order"
    assert found["cause"]["code"].endswith(" in seller")
    assert found["cause"]["code"].startswith("desk.py:")
    assert found["replays"] <= 4

    assert re.search(r"\n +at desk\.py:\d+ in seller\n", found["report"]), found["report"]
    unclear = bisected("--good", commits[0], "--bad", commits[2])
    assert unclear.returncode == 1
    assert "the run is same with the bad revision" in unclear.stderr
    wrong = bisected("--good", "main", "--bad", commits[0])
    assert (wrong.returncode, "is not before" in wrong.stderr) == (2, True)
    assert git(tmp_path, "worktree", "list").count("\n") == 1
