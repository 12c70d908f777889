"""Bisection of generated histories of 64 commits; `make replay-corpus` runs all 20."""

import os
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.planted_history import NUMBER, planted_history
from tracereel.fleet.bisecting import first_change
from tracereel.fleet.file import FleetFile
from tracereel.fleet.runner import FleetSettings

SEEDS = range(20) if os.environ.get("BISECT_FULL") else (1, 6)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_planted_commit_and_its_line_are_found_with_7_replays(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path / "recorded").write()
    desk.record(tmp_path / "runs.fleet", [NUMBER])
    (run,) = FleetFile(tmp_path / "runs.fleet").runs()
    history = planted_history(tmp_path / "program", seed)
    monkeypatch.setenv("DESK_COUNTER", str(desk.counter))
    replays: list[int] = []

    found = first_change(
        run,
        FleetSettings(root=history.folder),
        *(history.commits[0], history.commits[-1]),
        noted=replays.append,
    )

    assert (found.commit, found.unknown) == (history.first_bad, ()), found.verdict.text
    assert found.replays == len(replays) <= 7
    verdict = "prompt_changed" if history.kind == "prompt" else "changed"
    assert found.verdict.verdict == verdict
    if history.kind not in ("output", "missing call"):
        assert found.verdict.cause.code.startswith("desk.py:"), found.verdict.text
    if history.kind == "raised":
        assert found.verdict.cause.argument == "raised KeyError"
    assert not desk.counter.exists(), "the irreversible tool has run"
