"""The workflow of docs/replay-in-ci.md: its commands run as printed, for two pull requests."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from tests.sdk.fleet.test_baseline import git
from tests.support.collector import CollectorProcess
from tests.support.desk import Desk
from tests.support.recorded_desk import record_into

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "replay-in-ci.md").read_text(encoding="utf-8")
WORKFLOW = yaml.safe_load(re.search(r"```yaml\n(.*?)\n```\n\n", PAGE, re.DOTALL)[1])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a collector with runs of a program, and the repository of the program."""
    folder = tmp_path_factory.mktemp("ci")
    running = CollectorProcess(folder / "data").start()
    try:
        desk = Desk(folder / "origin").write()
        record_into(running, desk, "desk", 8)
        (desk.folder / "requirements.txt").write_text("")
        git(desk.folder, "init", "-q", "-b", "main")
        git(desk.folder, "add", "desk.py", "requirements.txt")
        git(desk.folder, "commit", "-q", "-m", "first")
        yield running, desk
    finally:
        running.stop()


def executed(place, folder):
    """Run the steps of the job in a clone; return the exit status of each by name."""
    running, desk = place
    values = {
        "vars.TRACEREEL_ENDPOINT": running.url,
        "secrets.TRACEREEL_READ_KEY": "",
    }
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GITHUB_BASE_REF": "main",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "DESK_COUNTER": str(desk.counter),
        # Packages are installed already: nothing is downloaded.
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    found, failed = {}, False
    for step in WORKFLOW["jobs"]["replay"]["steps"]:
        if "run" not in step or (failed and step.get("if") != "always()"):
            continue
        given = {
            name: re.sub(r"\${{ (\S+) }}", lambda match: values[match[1]], str(value))
            for name, value in step.get("env", {}).items()
        }
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
            cwd=folder,
            env={**environment, **{name: value for name, value in given.items() if value}},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        failed = failed or done.returncode != 0
        found[step["name"]] = done
    return found


def clone_of(place, folder):
    git(folder.parent, "clone", "-q", str(place[1].folder), str(folder))
    return Desk(folder)


def test_a_pull_request_that_changes_nothing_passes(place, tmp_path):
    clone = clone_of(place, tmp_path / "work")
    clone.change("return answer\n", "return answer  # the word of the model\n")

    steps = executed(place, clone.folder)

    statuses = {name: done.returncode for name, done in steps.items()}
    assert statuses == {"Pull last week's runs": 0, "Replay": 0, "Show the report": 0}, steps
    assert "8 same; coverage 100.0%" in (clone.folder / "summary.md").read_text()
    assert not place[1].counter.exists()


def test_a_pull_request_that_changes_behaviour_fails_with_the_cause(place, tmp_path):
    clone = clone_of(place, tmp_path / "work")
    clone.change('["number", "total"])', '["total"])')

    steps = executed(place, clone.folder)

    assert steps["Pull last week's runs"].returncode == 0, steps
    assert steps["Replay"].returncode == 1, steps
    assert steps["Show the report"].returncode == 0, steps
    summary = (clone.folder / "summary.md").read_text()
    assert "3 changed: changed · desk / seller / find_order · fields[*]" in summary
    suite = ET.parse(clone.folder / "report.xml").getroot()
    assert suite.get("failures") == "1"
    assert (clone.folder / "report.html").is_file()
    assert not place[1].counter.exists()
