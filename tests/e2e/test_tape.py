"""A run recorded by the SDK, stored by a collector, fetched and re-executed."""

import json
import os
import random
import subprocess
import sys

import pytest

import tracereel
from tests.support.collector import http
from tests.support.contract import EXAMPLES
from tests.support.waiting import wait_until
from tracereel import traced_agent, traced_tool
from tracereel._core import recorder
from tracereel.tape import Override, fork

JSON = {"Content-Type": "application/x-ndjson"}


@traced_tool("dice", effect="read")
def dice(sides):
    return random.randint(1, sides)


@traced_agent("player")
def player(rolls):
    return [dice(1000 + n) for n in range(rolls)]


@pytest.fixture
def recorded(collector, tmp_path, monkeypatch, trace_id):
    monkeypatch.setenv("TRACEREEL_ENDPOINT", collector.url)
    before = recorder._active
    tracereel.configure(endpoint=collector.url, spool_dir=tmp_path, record="all")
    agent = traced_agent("outer", trace_id=trace_id)(lambda: player(5))
    result = agent()
    assert tracereel.flush(30).spooled == 0
    yield trace_id, agent, result
    tracereel.shutdown(5)
    recorder._active = before


def test_a_run_is_re_executed_from_the_collector(collector, recorded):
    trace_id, agent, result = recorded
    path = f"{collector.url}/v1/traces/{trace_id}/tape"
    wait_until(lambda: b'"closed"' in http("GET", path).body, timeout=30, message="no whole tape")
    with tracereel.replay(trace_id) as run:
        again = agent()

    assert again == result
    assert run.report.served == 5

    timeline = collector.replay(trace_id).json()["timeline"]
    assert "agent.tape.recorded" not in {entry["event"] for entry in timeline}
    # Events have microseconds, spans nanoseconds: nothing may precede the start.
    assert min(entry["step"]["offset_ms"] for entry in timeline) == 0
    end = http("GET", f"{collector.url}/v1/replay/{trace_id}?at=1000000").json()
    assert end["events_so_far"] == len(timeline)
    complete = http("GET", f"{collector.url}/v1/traces/{trace_id}/completeness").json()
    assert complete["verdict"] == "complete", json.dumps(complete)


def tracereel_command(*words):
    return subprocess.run(
        [sys.executable, "-m", "tracereel", *words],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def replayable(collector, trace_id):
    return http("GET", f"{collector.url}/v1/traces/{trace_id}/replayable").json()


def stored(collector, trace_id, holds, message):
    """Return the replayable document once it satisfies `holds`."""
    wait_until(lambda: holds(replayable(collector, trace_id)), timeout=30, message=message)
    return replayable(collector, trace_id)


def is_whole(found):
    """Return whether all parts of the tape are stored."""
    return found.get("replayable") == "yes"


def test_divergences_are_kept_with_the_run_and_are_no_events_of_it(collector, recorded):
    trace_id, _, _ = recorded
    found = stored(collector, trace_id, is_whole, "no whole tape")
    before = collector.replay(trace_id).json()
    assert (found["replayable"], found["reasons"], found["calls"]) == ("yes", [], 5)
    assert found["command"] == f"tracereel replay {trace_id} --run"

    other = traced_agent("outer")(lambda: player(4))
    with tracereel.replay(trace_id, mode="report", compare_output=False, keep=True):
        other()
    found = stored(collector, trace_id, lambda found: found["replays"], "the replay is not kept")

    replay = found["replays"][0]
    assert (replay["identical"], replay["served"], replay["mode"]) == (False, 4, "report")
    assert [each["kind"] for each in replay["divergences"]] == ["missing"]
    assert replay["divergences"][0]["name"] == "dice"
    assert collector.replay(trace_id).json() == before
    complete = http("GET", f"{collector.url}/v1/traces/{trace_id}/completeness").json()
    assert complete["verdict"] == "complete"

    told = tracereel_command("replay", trace_id, "--endpoint", collector.url)
    assert "can be run again" in told.stdout
    assert "missing: outer / player / dice" in told.stdout


def test_a_branch_is_linked_with_its_run_and_compared_with_it(collector, recorded):
    trace_id, _, result = recorded
    stored(collector, trace_id, is_whole, "no whole tape")
    branched = traced_agent("outer")(lambda: player(5))
    with fork(trace_id, at=4, overrides=[Override(2, result=7)]) as run:
        again = branched()
    branch = run.tape.trace_id
    assert tracereel.flush(30).spooled == 0
    assert (again[0], again[1], again[2]) == (result[0], 7, result[2])

    found = stored(collector, trace_id, lambda found: found.get("branches"), "no branch")
    tree = found["branches"]
    assert (tree["trace_id"], tree["branches"][0]["trace_id"]) == (trace_id, branch)
    assert tree["branches"][0]["overrides"] == [{"target": 2, "result": "7"}]
    of_branch = stored(collector, branch, lambda found: found.get("recorded"), "no tape of it")
    assert of_branch["forked_from"]["trace_id"] == trace_id
    assert of_branch["branches"] == tree

    diff = http("GET", f"{collector.url}/v1/traces/{trace_id}/diff/{branch}").json()
    assert diff["fork"] == {
        "branch": branch,
        "of": trace_id,
        "at": 4,
        "overrides": [{"target": 2, "result": "7"}],
    }
    told = tracereel_command("diff", trace_id, branch, "--endpoint", collector.url)
    assert f"{branch} is a branch of {trace_id}" in told.stdout
    assert "2: result is 7" in told.stdout
    told = tracereel_command("replay", branch, "--endpoint", collector.url)
    assert f"{branch} (this run) from call 4 on: 2: result is 7" in told.stdout


def test_run_without_a_tape_is_reported_as_not_replayable(collector):
    event = {**EXAMPLES[1], "event_id": "evt_not_recorded", "trace_id": "trc_not_recorded"}
    http("POST", f"{collector.url}/v1/events?wait=stored", json.dumps(event).encode(), JSON)

    found = replayable(collector, "trc_not_recorded")
    assert (found["replayable"], found["recorded"], found["command"]) == ("no", False, None)
    assert "not recorded" in found["reasons"][0]
    assert http("GET", f"{collector.url}/v1/traces/nobody/replayable").status == 404
    for words in (
        ["replay", "trc_not_recorded", "--run"],
        ["test-from", "trc_not_recorded", "--tape", "x"],
    ):
        told = tracereel_command(*words, "--endpoint", collector.url)
        assert told.returncode == 1
        assert "the run trc_not_recorded has no tape: it was not recorded" in told.stderr


NOT_CHOSEN = (
    "recording was on for a share of the runs (record=sampled, record_rate=0), and this run is not"
    " among them"
)
DID_NOT_FAIL = (
    "recording was on for runs in which something fails (record=errors), and nothing failed in this"
    " one"
)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"record": "sampled", "record_rate": 0.0}, NOT_CHOSEN),
        ({"record": "errors"}, DID_NOT_FAIL),
    ],
)
@pytest.mark.parametrize("begins", ["agent", "tool"])
def test_unsampled_run_reports_that_it_has_no_tape(
    collector, tmp_path, trace_id, settings, why, begins
):
    before = recorder._active
    tracereel.configure(endpoint=collector.url, spool_dir=tmp_path, **settings)
    if begins == "agent":
        traced_agent("outer", trace_id=trace_id)(lambda: player(2))()
    else:
        with tracereel.traced_tool("alone", trace_id=trace_id):
            pass
    assert tracereel.flush(30).spooled == 0
    tracereel.shutdown(5)
    recorder._active = before

    found = stored(collector, trace_id, lambda found: "reasons" in found, "no run")
    assert (found["replayable"], found["recorded"], found["command"]) == ("no", False, None)
    assert found["reasons"] == [f'{why}: for every run, tracereel.configure(record="all")']
    told = tracereel_command("replay", trace_id, "--run", "--endpoint", collector.url)
    assert told.returncode == 1
    assert f"the run {trace_id} has no tape: {why}" in told.stderr


def test_a_run_without_a_tape_is_a_404(collector):
    answer = http("GET", f"{collector.url}/v1/traces/nobody/tape")

    assert answer.status == 404
    assert "no tape" in answer.json()["error"]["message"]
