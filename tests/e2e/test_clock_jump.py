"""The wall clock jumps under load, with retention, ledgers, sessions and deletion on.

Nothing acknowledged is lost or duplicated, during the jump and after its correction.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter

import clickhouse_connect
import pytest

from tests.support.clock import ShiftedClock
from tests.support.collector import http
from tests.support.conservation import conserved
from tests.support.keys import make_key
from tests.support.oracle_process import Oracle, free_port
from tests.support.waiting import wait_until
from tracereel_collector.runtime.clock.state import EARLIEST_NANO

DAY = 86_400
YEAR = 365 * DAY
BATCHES = 300


class Site:
    """Collector whose clock jumps, with a key that has every scope."""

    def __init__(self, new_collector, place, *, wall=0, passed=0, workers="1"):
        self.clock = ShiftedClock(place / "shift")
        self.clock.set(wall=wall, passed=passed)
        data_dir = place / "data"
        self.key = make_key(data_dir, scope="write,read,admin")["key"]
        self.collector = new_collector(
            data_dir,
            port=free_port(),
            arguments=("--workers", workers),
            environ={
                **self.clock.environ,
                "TRACEREEL_RETENTION_DAYS": "30",
                "TRACEREEL_RETENTION_SECONDS": "0.1",
            },
        ).start()
        self.deleted = 0

    def ask(self, method, path, document=None):
        body = None if document is None else json.dumps(document).encode()
        return http(method, f"{self.collector.url}{path}", body, {"x-api-key": self.key})

    def send(self, name, **fields):
        event = {
            "event_id": name,
            "event_type": "custom.clock",
            "timestamp": "2026-01-23T10:00:00Z",
            "trace_id": f"trc_{name}",
            **fields,
        }
        return self.collector.post_events([event], headers={"x-api-key": self.key})

    def state(self):
        return http("GET", f"{self.collector.url}/readyz").json()["clock"]["state"]

    def wait_for_sweeps(self, outcome, count=1):
        name = "tracereel_retention_sweeps_total"
        target = self.collector.metric(name, outcome=outcome) + count
        wait_until(lambda: self.collector.metric(name, outcome=outcome) >= target, timeout=60)

    def sweep(self):
        """Run retention again under the same rule."""
        name = "tracereel_retention_sweeps_total"
        target = self.collector.metric(name, outcome="done") + 1
        assert self.ask("POST", "/v1/retention", {"days": 30}).status == 200
        wait_until(lambda: self.collector.metric(name, outcome="done") >= target, timeout=60)

    def rows(self, statement):
        ready = http("GET", f"{self.collector.url}/readyz").json()
        host, port = ready["store"]["address"].split(":")
        secret = (self.collector.data_dir / "store" / "engine.secret").read_text().strip()
        client = clickhouse_connect.get_client(
            host=host, port=int(port), username="tracereel", password=secret, database="tracereel"
        )
        with client:
            return client.query(statement).result_rows

    # Components that keep state: each is checked before, during and after a jump.

    def prepare(self):
        assert self.send("ledger", emitter_id="emt", emitter_seq=1).json()["status"] == "stored"
        assert self.send("digest").json()["status"] == "stored"
        assert self.send("owner", session_id="s", user_id="ana").json()["status"] == "stored"
        assert self.send("gone").json()["status"] == "stored"
        assert self.ask("DELETE", "/v1/traces/trc_gone").status == 200

    def check_memories(self, name):
        assert self.send("ledger", emitter_id="emt", emitter_seq=1).json()["duplicates"] == 1
        assert self.send("digest").json()["duplicates"] == 1
        flagged = self.collector.metric("tracereel_session_user_mismatches_total")
        self.send(f"claim-{name}", trace_id="trc_claims", session_id="s", user_id="bob")
        assert self.collector.metric("tracereel_session_user_mismatches_total") == flagged + 1
        # A late event of a deleted run: accepted, counted, and not stored.
        self.send(f"late-{name}", trace_id="trc_gone")
        self.deleted += 1
        refused = self.collector.metric(
            "tracereel_records_rejected_total", kind="events", reason="deleted"
        )
        assert refused == self.deleted

    def check_everything_is_there_once(self, oracle, *, besides):
        wait_until(
            lambda: self.collector.metric("tracereel_records_pending", kind="events") == 0,
            timeout=120,
        )
        expected = Counter({each: 1 for ids in oracle.acknowledged.values() for each in ids})
        expected.update(besides)
        found = Counter(dict(self.rows("SELECT event_id, count() FROM agent_events GROUP BY 1")))
        assert (expected - found, found - expected) == (Counter(), Counter())
        conserved(self.collector)

    def check_arrivals(self, since):
        ((first, last),) = self.rows(
            "SELECT min(toUnixTimestamp(ingested_at)), max(toUnixTimestamp(ingested_at))"
            " FROM agent_events"
        )
        assert since - 60 < first <= last < time.time() + 60


def kept(*names):
    return ["ledger", "digest", "owner", *(f"claim-{name}" for name in names)]


def more(oracle):
    target = oracle.count + BATCHES
    wait_until(lambda: oracle.count >= target, timeout=120)


def test_clock_400_days_ahead_deletes_nothing(new_collector, tmp_path):
    site = Site(new_collector, tmp_path)
    assert site.send("kept").json()["status"] == "stored"
    looked = site.collector.metric("tracereel_retention_sweeps_total")

    site.clock.set(wall=400 * DAY)
    wait_until(
        lambda: site.collector.metric("tracereel_retention_sweeps_total") > looked, timeout=60
    )
    site.clock.set()

    trace = site.ask("GET", "/v1/replay/trc_kept")
    assert trace.status == 200, trace.body
    assert [each["details"]["event_id"] for each in trace.json()["timeline"]] == ["kept"]


@pytest.mark.fault
def test_clock_a_year_ahead_under_load_loses_and_duplicates_nothing(new_collector, tmp_path):
    started = time.time()
    site = Site(new_collector, tmp_path, workers="2")
    site.prepare()
    oracle = Oracle(site.collector.url, "ahead", 1, key=site.key)
    site.check_memories("before")
    more(oracle)

    for number, jump in enumerate((YEAR, -YEAR)):
        site.clock.set(wall=jump)
        site.wait_for_sweeps("clock", 3)
        assert site.state() == "jumped"
        assert abs(site.collector.metric("tracereel_clock_jump_seconds") - jump) < 300
        more(oracle)
        site.check_memories(f"during-{number}")
        site.clock.set()
        wait_until(lambda: site.state() == "following", timeout=30)
        site.check_memories(f"after-{number}")
        site.sweep()
    more(oracle)
    assert oracle.finish() == 0

    names = ("before", "during-0", "after-0", "during-1", "after-1")
    site.check_everything_is_there_once(oracle, besides=kept(*names))
    site.check_arrivals(started)
    lines = "\n".join(site.collector.output)
    assert "clock_jump_not_believed" in lines
    assert "clock_jump_over" in lines


@pytest.mark.fault
def test_boot_in_1970_then_corrected_loses_and_duplicates_nothing(new_collector, tmp_path):
    started = time.time()
    site = Site(new_collector, tmp_path)
    site.prepare()
    oracle = Oracle(site.collector.url, "boot", 1, key=site.key)
    more(oracle)
    site.collector.kill()
    # As after a reboot with a clock that lost the time.
    saved = site.collector.data_dir / "clock.json"
    saved.write_text(json.dumps(json.loads(saved.read_text()) | {"boot_id": "an earlier one"}))
    site.clock.set(wall=-int(time.time()))
    site.collector.start()
    site.wait_for_sweeps("clock", 2)
    more(oracle)
    site.check_memories("in-1970")

    site.clock.set()
    wait_until(lambda: site.state() == "following", timeout=30)
    more(oracle)
    site.check_memories("corrected")
    site.sweep()
    assert oracle.finish() == 0

    site.check_everything_is_there_once(oracle, besides=kept("in-1970", "corrected"))
    site.check_arrivals(started)


@pytest.mark.fault
def test_a_first_start_in_1970_keeps_what_came_before_the_correction(new_collector, tmp_path):
    site = Site(new_collector, tmp_path, wall=-int(time.time()))
    site.prepare()
    assert site.state() == "unset"
    ((arrived,),) = site.rows("SELECT max(toUnixTimestamp(ingested_at)) FROM agent_events")
    assert 0 <= arrived - EARLIEST_NANO // 10**9 < 600
    site.check_memories("unset")

    site.clock.set()
    wait_until(lambda: site.state() == "following", timeout=30)
    site.check_memories("set")
    site.sweep()

    # The two arrival dates are more than 30 days apart, the real times a few minutes.
    found = {name for (name,) in site.rows("SELECT event_id FROM agent_events")}
    assert found == set(kept("unset", "set"))


@pytest.mark.fault
def test_a_confirmed_jump_is_followed_by_a_running_collector(new_collector, tmp_path):
    site = Site(new_collector, tmp_path, passed=-3 * DAY)
    assert site.send("old").json()["status"] == "stored"
    site.clock.set()
    asked = [sys.executable, "-m", "tracereel", "keys", "create", "--expires", "90d"]
    made = subprocess.run(
        [*asked, "--data-dir", str(site.collector.data_dir)],
        capture_output=True,
        text=True,
        check=True,
    )
    expiring = {"x-api-key": made.stdout.strip()}
    site.clock.set(wall=YEAR)
    site.wait_for_sweeps("clock")
    assert site.send("held").json()["status"] == "stored"
    reading = f"{site.collector.url}/v1/emitters"
    assert http("GET", reading, headers=expiring).status == 200

    status, said = tracereel_clock(site)
    assert status == 1
    assert "+365.0 days" in said
    status, said = tracereel_clock(site, "--confirm")
    assert status == 0
    assert "confirmed" in said

    wait_until(lambda: site.state() == "following", timeout=30)
    wait_until(lambda: site.ask("GET", "/v1/replay/trc_old").status == 404, timeout=60)
    assert site.ask("GET", "/v1/replay/trc_held").status == 200
    assert site.send("new").json()["status"] == "stored"
    ((arrived,),) = site.rows(
        "SELECT toUnixTimestamp(ingested_at) FROM agent_events WHERE event_id = 'new'"
    )
    assert abs(arrived - time.time() - YEAR) < 300
    assert http("GET", reading, headers=expiring).status == 401
    # Set back permanently: the key stays expired until that is confirmed too.
    site.clock.set()
    site.wait_for_sweeps("clock")
    assert http("GET", reading, headers=expiring).status == 401


def tracereel_clock(site, *words):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "clock", *words),
            *("--data-dir", str(site.collector.data_dir)),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **site.clock.environ},
    )
    return done.returncode, done.stdout + done.stderr
