"""Decisions of a program are found by their fields: API, client, command and SQL."""

import json
import os
import subprocess
import sys
import uuid

import pytest

from tests.support.collector import http
from tests.support.waiting import wait_until
from tracereel.client import Client

PROGRAM = """
import sys
import tracereel

tracereel.configure()


@tracereel.traced_agent("router")
def route(name, confidence):
    tracereel.record_decision(
        sys.argv[1],
        category="routing",
        scores={name: confidence, "other": 0.1},
        threshold=0.5,
        chosen=name,
        confidence=confidence,
        reasoning="by its words",
    )


route("billing", 0.9)
route("support", 0.3)
"""


@pytest.fixture(scope="module")
def kind(collector, tmp_path_factory):
    """Run the program; return the type of its decisions."""
    kind = f"route_{uuid.uuid4().hex}"
    environ = {
        **os.environ,
        "TRACEREEL_ENDPOINT": collector.url,
        "TRACEREEL_EVENT_LOGS": "off",
        "TRACEREEL_SPOOL_DIR": str(tmp_path_factory.mktemp("spool")),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    wait_until(lambda: len(found(collector, decision_type=kind)) == 2, timeout=30)
    return kind


def found(collector, **filters):
    return [run.trace_id for run in Client(collector.url).find(**filters)]


def test_runs_are_found_by_one_decision(collector, kind):
    sure = found(collector, decision_type=kind, decision_chosen="billing")
    unsure = found(collector, decision_type=kind, max_decision_confidence=0.5)

    assert (len(sure), len(unsure)) == (1, 1)
    assert sure != unsure
    assert set(found(collector, decision_type=kind, decision_category="routing")) == {
        *sure,
        *unsure,
    }
    assert found(collector, decision_type=kind, decision_agent="other") == []
    assert found(collector, decision_type=kind, below_threshold=True) == unsure
    listed = subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "traces", "--endpoint", collector.url, "--json"),
            *("--decision-type", kind, "--decision-chosen", "support"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert unsure[0] in listed.stdout
    assert sure[0] not in listed.stdout


def test_decisions_are_rows_for_sql(collector, kind):
    statement = (
        "SELECT agent_name, decision_category, chosen, confidence, threshold, reasoning,"
        " candidate_names, candidate_scores FROM decisions"
        " WHERE decision_type = {kind:String} ORDER BY confidence"
    )
    body = json.dumps({"query": statement, "parameters": {"kind": kind}}).encode()
    answer = http(
        "POST", f"{collector.url}/v1/sql", body, {"Content-Type": "application/json"}
    ).json()

    assert answer["rows"] == [
        [
            "router",
            "routing",
            "support",
            0.3,
            0.5,
            "by its words",
            ["support", "other"],
            [0.3, 0.1],
        ],
        [
            "router",
            "routing",
            "billing",
            0.9,
            0.5,
            "by its words",
            ["billing", "other"],
            [0.9, 0.1],
        ],
    ]


def test_an_empty_range_is_refused(collector):
    query = "min_decision_confidence=0.9&max_decision_confidence=0.1"
    answer = http("GET", f"{collector.url}/v1/traces?{query}")

    assert answer.status == 400
    assert "min_decision_confidence: 0.9 is above max" in answer.json()["error"]["message"]
