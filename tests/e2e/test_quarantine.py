"""The quarantine of a running collector with two workers, as an operator meets it."""

import json
import subprocess
import sys

import clickhouse_connect
import pytest

from tests.support.collector import CollectorProcess, http
from tests.support.conservation import conserved
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def picky(tmp_path_factory):
    """A collector whose table refuses events called poison, and a way to make it take them."""
    running = CollectorProcess(tmp_path_factory.mktemp("picky"), arguments=("--workers", "2"))
    running.start()
    address = http("GET", f"{running.url}/readyz").json()["store"]["address"].split(":")
    running.store = clickhouse_connect.get_client(
        host=address[0],
        port=int(address[1]),
        username="tracereel",
        password=(running.data_dir / "store" / "engine.secret").read_text().strip(),
        database="tracereel",
    )
    running.store.command(
        "ALTER TABLE agent_events ADD CONSTRAINT harmless CHECK event_id NOT LIKE '%poison%'"
    )
    yield running
    running.store.close()
    running.stop()


def event(name, trace_id):
    return {
        "event_id": f"{trace_id}-{name}",
        "event_type": "custom.x",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": trace_id,
    }


def quarantine(collector, *words):
    return subprocess.run(
        [*(sys.executable, "-m", "tracereel", "quarantine"), *words, "--endpoint", collector.url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_poison_is_listed_shown_dropped_and_retried_while_the_rest_is_stored(picky, trace_id):
    answer = picky.post_events(
        [event(name, trace_id) for name in ("a", "poison1", "b", "poison2", "c")], wait=False
    )
    first = answer.json()["first_sequence_number"]
    wait_until(
        lambda: picky.metric("tracereel_records_quarantined_total", kind="events") == 2, timeout=60
    )
    counts = conserved(picky)
    assert (counts["stored"], counts["quarantined"]) == (3, 2)

    listed = json.loads(quarantine(picky, "list", "--json").stdout)
    assert [each["sequence_number"] for each in listed] == [first + 3, first + 1]
    assert all("harmless" in each["reason"] for each in listed)
    told = quarantine(picky, "list")
    assert told.returncode == 0
    assert "harmless" in told.stdout

    newest, oldest = (str(each["id"]) for each in listed)
    shown = quarantine(picky, "show", newest)
    assert f"{trace_id}-poison2" in shown.stdout
    assert quarantine(picky, "drop", newest).stdout == "1 dropped\n"
    assert quarantine(picky, "show", newest).returncode == 1
    for verb, word in [("show", "all"), ("retry", "newest")]:
        refused = quarantine(picky, verb, word)
        assert refused.returncode == 2
        assert f"{verb} needs the id of an entry" in refused.stderr
    page = http("GET", f"{picky.url}/v1/quarantine?limit=1").json()
    assert [str(each["id"]) for each in page["entries"]] == [oldest]

    picky.store.command("ALTER TABLE agent_events DROP CONSTRAINT harmless")
    assert quarantine(picky, "retry", "all").stdout == "1 queued for delivery\n"

    wait_until(lambda: len(picky.replay(trace_id).json()["timeline"]) == 4, timeout=60)
    assert json.loads(quarantine(picky, "list", "--json").stdout) == []
    wait_until(lambda: picky.metric("tracereel_records_pending", kind="events") == 0)
    counts = conserved(picky)
    assert counts["stored"] == 4
    assert (counts["quarantined"], counts["retried"], counts["dropped"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/quarantine/999", 404),
        ("POST", "/v1/quarantine/999/retry", 404),
        ("DELETE", "/v1/quarantine/999", 404),
        ("GET", "/v1/quarantine/none", 400),
        ("GET", "/v1/quarantine?limit=0", 400),
        ("GET", f"/v1/quarantine?before={2**70}", 400),
    ],
)
def test_what_is_not_there_or_makes_no_sense_is_said(picky, method, path, status):
    assert http(method, f"{picky.url}{path}").status == status


def test_without_a_collector_the_command_says_so(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "quarantine", "list", "--endpoint"),
            "http://127.0.0.1:9",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
