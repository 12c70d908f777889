"""Retention from an operator's view: routes, the command, and simulated days."""

import json
import subprocess
import sys

import pytest

from tests.support.clock import ShiftedClock
from tests.support.collector import CollectorProcess, http
from tests.support.waiting import wait_until

DAY = 86_400


def event(number):
    return {
        "event_id": f"evt-{number}",
        "event_type": "custom.old",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": f"trc_{number}",
    }


@pytest.fixture(scope="module")
def aged(tmp_path_factory):
    """Return a collector with a settable clock that runs retention often."""
    place = tmp_path_factory.mktemp("aged")
    clock = ShiftedClock(place / "shift")
    clock.set(passed=-40 * DAY)
    collector = CollectorProcess(
        place / "data",
        environ={
            **clock.environ,
            "TRACEREEL_RETENTION_SECONDS": "0.2",
            "TRACEREEL_RETENTION_DAYS": "365",
            "TRACEREEL_LOCAL_ADMIN": "on",
        },
    ).start()
    yield collector, lambda days: clock.set(passed=days * DAY)
    collector.stop()


def asked(collector, *words):
    done = subprocess.run(
        [sys.executable, "-m", "tracereel", "retention", *words, "--endpoint", collector.url],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_expired_rows_are_removed_automatically(aged):
    collector, set_clock = aged
    set_clock(-40)
    assert collector.post_events([event(1)]).json()["status"] == "stored"
    set_clock(-20)
    assert collector.post_events([event(2)]).json()["status"] == "stored"
    set_clock(0)
    assert collector.replay("trc_1").status == 200

    status, said, _ = asked(collector, "set", "30")

    assert status == 0
    assert "rows of tenant default are kept 30 days" in said
    wait_until(lambda: collector.replay("trc_1").status == 404, timeout=30)
    assert collector.replay("trc_2").status == 200
    # Counted right after the rows are gone.
    deleted = "tracereel_retention_deleted_rows_total"
    wait_until(lambda: collector.metric(deleted, table="agent_events") == 1)
    assert (
        "retention.set"
        in (collector.data_dir / "audit" / "audit.ndjson").read_text().splitlines()[-1]
    )


def test_a_rule_is_shown_and_taken_back(aged):
    collector, _ = aged
    assert asked(collector, "set", "forever")[0] == 0
    shown = json.loads(asked(collector, "--json")[1])
    assert (shown["tenant"], shown["days"], shown["from"]) == ("default", None, "rule")
    assert shown["first_day_kept"] is None

    assert asked(collector, "unset")[0] == 0

    shown = http("GET", f"{collector.url}/v1/retention").json()
    assert (shown["days"], shown["from"], shown["set_by"]) == (365, "default", None)
    assert shown["first_day_kept"]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"days": 0}', b'{"days": "7"}', b'{"day": 7}'])
def test_invalid_retention_days_are_refused(aged, body):
    collector, _ = aged

    answer = http("POST", f"{collector.url}/v1/retention", body)

    assert answer.status == 400
    error = answer.json()["error"]
    assert error["hint"] == 'send {"days": 30}'
    assert "; got " in error["message"]


def test_retention_command_errors(aged):
    for words, said in [
        (["set", "soon"], "set needs a number of days, or 'forever'; got 'soon'"),
        (["set"], "set needs a number of days, or 'forever'; got nothing"),
        (["show", "3"], "show takes no number of days; got '3'"),
    ]:
        status, _, errors = asked(aged[0], *words)

        assert status == 2
        assert said in errors
