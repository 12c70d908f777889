"""`pytest --tracereel-fleet FILE`: recorded runs as tests, each cause a failure."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.sdk.fleet.test_run import ARGUMENT, OUTPUT, PROMPT
from tests.support.desk import Desk

ORDINARY = "def test_of_the_program():\n    pass\n"


@pytest.fixture
def project(desk: Desk, runs: Path) -> Desk:
    """Program with a test and 12 recorded runs."""
    (desk.folder / "test_desk.py").write_text(ORDINARY)
    desk.record(runs, range(12))
    return desk


def test_runs_that_go_as_recorded_pass(project: Desk, runs: Path) -> None:
    done = project.pytest("--tracereel-fleet", runs)

    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert Path(f"{runs}.verdicts.ndjson").stat().st_mode & 0o777 == 0o600


def test_each_cause_is_a_failure_and_prompts_are_skipped(
    project: Desk, runs: Path, tmp_path: Path
) -> None:
    for change in (ARGUMENT, PROMPT, OUTPUT):
        project.change(*change)
    junit = tmp_path / "report.xml"

    done = project.pytest("-rfs", "--junit-xml", junit, "--tracereel-fleet", runs)

    assert done.returncode == 1, done.stdout
    assert "2 failed, 2 passed, 1 skipped" in done.stdout
    assert "runs.fleet::changed: changed · desk / seller / find_order · fields(*)" in done.stdout
    assert "the arguments are not those on the tape" in done.stdout
    assert "2 runs are prompt_changed: changed · desk / clerk / model-a" in done.stdout
    (suite,) = ET.parse(junit).getroot()
    assert (suite.get("failures"), suite.get("skipped")) == ("2", "1")
    assert not project.counter.exists(), "the irreversible tool has run"
    promoted = project.fleet("promote", runs, "--directory", project.folder / "replays")
    assert promoted.returncode == 0, promoted.stderr


def test_a_marker_chooses_only_the_runs(project: Desk, runs: Path) -> None:
    done = project.pytest("--tracereel-fleet", runs, "-m", "tracereel_fleet")

    assert done.returncode == 0, done.stdout
    assert "1 passed, 1 deselected" in done.stdout


def test_modules_are_found_in_the_pythonpath_of_pytest(desk: Desk, runs: Path) -> None:
    desk.record(runs, [1, 2])
    (desk.folder / "src").mkdir()
    desk.source.rename(desk.folder / "src" / "desk.py")
    (desk.folder / "pytest.ini").write_text("[pytest]\npythonpath = src\n")

    # Pytest would look for its file beside a path that is an argument of its own.
    done = desk.pytest(f"--tracereel-fleet={runs}")

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_inconclusive_runs_fail_by_coverage(project: Desk, runs: Path) -> None:
    project.change("import os\n", "import os\nimport nowhere\n")

    done = project.pytest("--tracereel-fleet", runs, "-m", "tracereel_fleet")

    assert done.returncode == 1, done.stdout
    assert "12 runs: 12 inconclusive; coverage 0.0%" in done.stdout
    assert "expected at least 90.0%" in done.stdout


def test_several_workers_of_pytest_execute_a_file_once(project: Desk, runs: Path) -> None:
    project.change(*OUTPUT)

    done = project.pytest("-n", "2", "--tracereel-fleet", runs)

    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr


def test_a_missing_or_damaged_file_is_explained(project: Desk, runs: Path) -> None:
    missing = project.pytest("--tracereel-fleet", "nowhere.fleet")
    assert (missing.returncode, "there is no such file" in missing.stderr) == (4, True)

    runs.write_bytes(runs.read_bytes()[:-20])
    damaged = project.pytest("--tracereel-fleet", runs, "-m", "tracereel_fleet")
    assert damaged.returncode == 1
    assert "cannot be read" in damaged.stdout
    assert "Traceback" not in damaged.stdout
