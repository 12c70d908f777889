"""Alerts fire when they should and have a runbook section."""

import os
import re
import subprocess

import pytest
import yaml

from tests.support.prometheus import FOLDER, tool
from tracereel.failures import CATEGORIES

RUNBOOK = (FOLDER.parent / "RUNBOOK.md").read_text("utf-8")
ALERTS = [
    rule
    for group in yaml.safe_load((FOLDER / "rules" / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
TESTS = sorted((FOLDER / "tests").glob("*.yml"))
GOALS = ("event_emit_rate", "event_loss_rate", "trace_completion_rate", "event_latency_p95")

needs_promtool = pytest.mark.skipif(
    tool("promtool") is None, reason="no `promtool` here: on Debian, apt-get install prometheus"
)


@needs_promtool
def test_the_configuration_is_valid():
    done = subprocess.run(
        [tool("promtool"), "check", "config", str(FOLDER / "prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.stem)
def test_alerts_fire_when_they_should(file):
    done = subprocess.run(
        [tool("promtool"), "test", "rules", file.name],
        cwd=file.parent,
        # Each case makes its own database, in memory if possible.
        env={**os.environ, **({"TMPDIR": "/dev/shm"} if os.access("/dev/shm", os.W_OK) else {})},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_seen_to_fire_in_a_test():
    fired = {
        case["alertname"]
        for file in TESTS
        for test in yaml.safe_load(file.read_text("utf-8"))["tests"]
        for case in test.get("alert_rule_test", [])
        if case["exp_alerts"]
    }

    assert {rule["alert"] for rule in ALERTS} - fired == set()


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_summary_and_a_runbook(rule):
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"]
    assert rule["annotations"]["runbook"] == f"dashboards/RUNBOOK.md#{rule['alert'].lower()}"
    section = re.search(rf"(?m)^### {rule['alert']}\n\n(.+)", RUNBOOK)
    assert section, f"RUNBOOK.md has no section {rule['alert']}"


def test_runbook_names_only_existing_alerts():
    assert set(re.findall(r"(?m)^### (\w+)", RUNBOOK)) == {rule["alert"] for rule in ALERTS}


@pytest.mark.parametrize("goal", GOALS)
def test_every_goal_is_defined_and_watched(goal):
    assert re.search(rf"(?m)^\| `{goal}` \| .+ \| .{{40,}} \|$", RUNBOOK)
    assert any(rule["expr"].startswith(goal) for rule in ALERTS)


def test_the_runbook_names_every_error_category_and_no_other():
    section = RUNBOOK.split("### AgentErrorRateHigh")[1].split("###")[0]

    assert set(re.findall(r"`(\w+)`", section)) == set(CATEGORIES)
