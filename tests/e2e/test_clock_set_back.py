"""The collector's clock is set back and forth while it runs: no loss, no reused numbers."""

import time

import clickhouse_connect
import pytest

from tests.support.clock import ShiftedClock
from tests.support.collector import http
from tests.support.conservation import conserved

HOUR, DAY = 3600, 86_400


def event(number):
    return {
        "event_id": f"clock-{number}",
        "event_type": "custom.clock",
        "timestamp": "2026-01-23T10:00:00Z",
        "trace_id": "trc_clock",
        "emitter_id": "emt_clock",
        "emitter_seq": number,
    }


@pytest.fixture
def stepped(new_collector, tmp_path):
    """Return a collector and a function that sets its clock; the engine's clock is unchanged."""
    clock = ShiftedClock(tmp_path / "shift")
    collector = new_collector(environ=clock.environ).start()
    return collector, lambda seconds: clock.set(wall=seconds)


@pytest.mark.fault
def test_a_clock_that_is_set_back_loses_nothing_and_repeats_no_number(stepped):
    collector, set_clock = stepped
    steps = [0, -HOUR, -HOUR, -2 * DAY, 0, +HOUR, 0]
    started = time.time()
    given = []
    for number, step in enumerate(steps, 1):
        set_clock(step)
        answer = collector.post_events([event(number)])
        assert answer.json()["status"] == "stored"
        given.append(answer.json()["first_sequence_number"])
        # Sent again under another clock: still a duplicate.
        set_clock(-step)
        assert collector.post_events([event(number)]).json()["duplicates"] == 1
        beat = b'{"emitter_id":"emt_clock","state":"alive","sent_at":"2026-01-23T10:00:00Z","recorded":%d}'
        assert http("POST", f"{collector.url}/v1/heartbeats", beat % number).status == 200
    set_clock(0)

    assert given == sorted(set(given))
    ids = [each["details"]["event_id"] for each in collector.replay("trc_clock").json()["timeline"]]
    assert ids == [f"clock-{number}" for number in range(1, len(steps) + 1)]
    counts = conserved(collector)
    assert counts["stored"] == counts["duplicate"] == len(steps)
    arrivals = dict(
        rows(collector, "SELECT event_id, toUnixTimestamp(ingested_at) FROM agent_events")
    )
    for number, step in enumerate(steps, 1):
        assert abs(arrivals[f"clock-{number}"] - started - step) < 300
    (emitter,) = http("GET", f"{collector.url}/v1/emitters").json()["emitters"]
    assert (emitter["claimed"], emitter["missing"]) == (len(steps), 0)


def rows(collector, statement):
    host, port = http("GET", f"{collector.url}/readyz").json()["store"]["address"].split(":")
    client = clickhouse_connect.get_client(
        host=host,
        port=int(port),
        username="tracereel",
        password=(collector.data_dir / "store" / "engine.secret").read_text().strip(),
        database="tracereel",
    )
    with client:
        return client.query(statement).result_rows
