"""Quarantine of a running collector with two workers, from an operator's view."""

import json
import subprocess
import sys

import clickhouse_connect
import pytest
from playwright.sync_api import expect

from tests.support.collector import CollectorProcess, http
from tests.support.conservation import conserved
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def picky(tmp_path_factory):
    """Return a collector whose table refuses poison events, and a function that lifts this."""
    running = CollectorProcess(
        tmp_path_factory.mktemp("picky"), arguments=("--workers", "2", "--local-admin")
    )
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

    text = (picky.data_dir / "audit" / "audit.ndjson").read_text()
    acts = [line for line in map(json.loads, text.splitlines()) if "quarantine" in line["event"]]
    assert [(each["event"], str(each["entry"]), each["records"]) for each in acts] == [
        ("quarantine.dropped", newest, 1),
        ("quarantine.retried", oldest, 1),
    ]
    assert all((each["tenant"], each["by"]) == ("default", "127.0.0.1") for each in acts)
    assert "poison" not in text, "the log names entries, never what is in them"


def test_commands_and_page_give_advice_when_admin_is_refused(new_collector, visits):
    """Regression: `drop all` used to report that it had dropped nothing."""
    refusing = new_collector(data_dir=None).start()
    address = http("GET", f"{refusing.url}/readyz").json()["store"]["address"].split(":")
    store = clickhouse_connect.get_client(
        host=address[0],
        port=int(address[1]),
        username="tracereel",
        password=(refusing.data_dir / "store" / "engine.secret").read_text().strip(),
        database="tracereel",
    )
    store.command("ALTER TABLE agent_events ADD CONSTRAINT none CHECK event_id NOT LIKE '%poison%'")
    store.close()
    refusing.post_events([event("poison", "trc_refusing")], wait=False)
    wait_until(lambda: http("GET", f"{refusing.url}/v1/quarantine").json()["entries"], timeout=60)

    for words in (("drop", "all"), ("drop", "1"), ("retry", "all")):
        refused = quarantine(refusing, *words)
        assert refused.returncode == 2
        assert "admin is needed" in refused.stderr
        assert "--local-admin" in refused.stderr
    page = visits(refusing).open("#/collector")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("#toast")).to_contain_text("--local-admin")
    assert len(http("GET", f"{refusing.url}/v1/quarantine").json()["entries"]) == 1


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
def test_invalid_quarantine_requests_get_their_status(picky, method, path, status):
    assert http(method, f"{picky.url}{path}").status == status


def test_quarantine_command_without_a_collector_is_an_error(tmp_path):
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
