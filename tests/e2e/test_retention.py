"""Retention as an operator meets it: routes, the command, and days that really pass."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import clock
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
    """A collector whose clock can be set, and that looks often whether something is too old."""
    place = tmp_path_factory.mktemp("aged")
    offset = place / "offset"
    offset.write_text("0")
    folder = str(Path(clock.__path__[0]))
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    collector = CollectorProcess(
        place / "data",
        environ={
            "PYTHONPATH": path,
            "TRACEREEL_TEST_CLOCK": str(offset),
            "TRACEREEL_RETENTION_SECONDS": "0.2",
            "TRACEREEL_RETENTION_DAYS": "365",
        },
    ).start()
    yield collector, lambda days: offset.write_text(str(days * DAY))
    collector.stop()


def asked(collector, *words):
    done = subprocess.run(
        [sys.executable, "-m", "tracereel", "retention", *words, "--endpoint", collector.url],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_what_is_older_than_its_tenant_keeps_it_goes_by_itself(aged):
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
    assert collector.metric("tracereel_retention_deleted_rows_total", table="agent_events") == 1
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
def test_what_is_no_number_of_days_is_refused(aged, body):
    collector, _ = aged

    answer = http("POST", f"{collector.url}/v1/retention", body)

    assert answer.status == 400
    error = answer.json()["error"]
    assert error["hint"] == 'send {"days": 30}'
    assert "; got " in error["message"]


def test_the_command_says_what_it_needs(aged):
    for words, said in [
        (["set", "soon"], "set needs a number of days, or 'forever'; got 'soon'"),
        (["set"], "set needs a number of days, or 'forever'; got nothing"),
        (["show", "3"], "show takes no number of days; got '3'"),
    ]:
        status, _, errors = asked(aged[0], *words)

        assert status == 2
        assert said in errors
