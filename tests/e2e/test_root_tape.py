"""The root tape of a run belongs to the emitter that started it."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.collector import http
from tests.support.waiting import wait_until

NDJSON = {"Content-Type": "application/x-ndjson"}
AGENT = """
import sys
import tracereel
from tracereel import traced_agent, traced_tool

endpoint, spool, trace_id, answer = sys.argv[1:]
tracereel.configure(endpoint=endpoint, spool_dir=spool, record="all")

@traced_tool("look", effect="read")
def look(where):
    return answer

@traced_agent("worker", trace_id=trace_id)
def worker():
    return look("here")

worker()
assert tracereel.flush(30).spooled == 0
tracereel.shutdown(5)
"""


def run_agent(collector, folder, trace_id, answer):
    """Record one run in a separate process."""
    subprocess.run(
        [sys.executable, "-c", AGENT, collector.url, str(folder), trace_id, answer],
        env={**os.environ, "TRACEREEL_API_KEY": ""},
        check=True,
        timeout=60,
    )


def tape(collector, trace_id, query=""):
    return http("GET", f"{collector.url}/v1/traces/{trace_id}/tape{query}")


def replayable(collector, trace_id):
    return http("GET", f"{collector.url}/v1/traces/{trace_id}/replayable").json()


def whole_tape(collector, trace_id, query=""):
    wait_until(
        lambda: b'"closed"' in tape(collector, trace_id, query).body, message="no whole tape"
    )
    return tape(collector, trace_id, query).body


def part(trace_id, number=0, **fields):
    """Return a tape part that runs a command, as a hostile sender may craft it."""
    header = {
        "r": "run",
        "n": 1,
        "version": 1,
        "trace_id": trace_id,
        "name": "worker",
        "started": "1999-01-01T00:00:00Z",
        "entry": "os:system",
        "form": "call",
    }
    closed = {"r": "closed", "how": "returned", "t": 1, "unfinished": 0}
    return {
        "event_id": f"evt_{trace_id}_{number}_{fields.get('emitter_id')}_{fields.get('tape_id')}",
        "event_type": "agent.tape.recorded",
        "event_version": "1.0.0",
        "timestamp": "1999-01-01T00:00:00Z",
        "hlc": "0000000000000001",
        "trace_id": trace_id,
        "tape_id": "tap_other",
        "tape_version": 1,
        "part": number,
        "records": [header, closed],
        **fields,
    }


def send(collector, *events):
    body = b"\n".join(json.dumps(event).encode() for event in events)
    answer = http("POST", f"{collector.url}/v1/events?wait=stored", body, NDJSON)
    assert answer.status == 200, answer.body


@pytest.fixture
def recorded(collector, tmp_path, trace_id):
    run_agent(collector, tmp_path / "first", trace_id, "first answer")
    return whole_tape(collector, trace_id)


def test_tape_of_another_emitter_does_not_replace_the_root_tape(collector, recorded, trace_id):
    before = replayable(collector, trace_id)
    first = json.loads(recorded.splitlines()[0])
    mallory = {"emitter_id": "emt_mallory", "span_id": "00000000000000aa"}
    send(
        collector,
        part(trace_id, emitter_seq=1, trace_seq=1, **mallory),
        part(trace_id, emitter_seq=2, trace_seq=2, **mallory, tape_id=first["tape_id"]),
        # The same event and tape id, without an emitter, below a parent, and as a later part.
        {**part(trace_id, tape_id=first["tape_id"]), "event_id": first["event_id"]},
        part(trace_id, parent_span_id=first["span_id"], emitter_id="emt_child", emitter_seq=1),
        part(trace_id, number=99, tape_id=first["tape_id"]),
    )

    assert tape(collector, trace_id).body == recorded
    after = replayable(collector, trace_id)
    assert sorted(after.pop("other_emitters")) == ["", "emt_child", "emt_mallory"]
    before.pop("other_emitters")
    assert after == before
    own = tape(collector, trace_id, "?emitter_id=emt_mallory")
    assert own.status == 200
    assert b"os:system" in own.body
    assert b"first answer" not in own.body


def test_sender_cannot_choose_the_order_of_arrival(collector, recorded, trace_id):
    forged = part(
        trace_id,
        emitter_id="emt_forger",
        emitter_seq=1,
        sequence_number=0,
        ingested_at="1999-01-01T00:00:00Z",
    )
    send(collector, forged)

    assert tape(collector, trace_id).body == recorded


def test_run_that_is_resumed_in_another_process_keeps_both_tapes(
    collector, recorded, trace_id, tmp_path
):
    run_agent(collector, tmp_path / "second", trace_id, "second answer")
    wait_until(lambda: replayable(collector, trace_id)["other_emitters"], message="no second tape")
    (other,) = replayable(collector, trace_id)["other_emitters"]

    assert b"second answer" in whole_tape(collector, trace_id, f"?emitter_id={other}")
    assert tape(collector, trace_id).body == recorded
    assert replayable(collector, trace_id)["replayable"] == "yes"


def test_emitter_that_claims_to_be_the_caller_later_does_not_take_the_run_over(collector, trace_id):
    """A forged caller looks like a real one that arrives late: neither replaces the root tape."""
    caller, called = "00000000000000b1", "00000000000000b2"
    called_part = part(
        trace_id, emitter_id="emt_called", emitter_seq=1, span_id=called, parent_span_id=caller
    )
    send(collector, called_part)
    assert b"emt_called" in tape(collector, trace_id).body

    send(collector, part(trace_id, emitter_id="emt_caller", emitter_seq=1, span_id=caller))
    assert b"emt_called" in tape(collector, trace_id).body
    assert replayable(collector, trace_id)["other_emitters"] == ["emt_caller"]
    assert b"emt_caller" in tape(collector, trace_id, "?emitter_id=emt_caller").body


def test_events_before_the_tape_settle_who_began_the_run(collector, trace_id):
    """With record=errors a run has a tape only when it fails: no other may come first."""
    began = {
        "event_id": f"evt_{trace_id}_began",
        "event_type": "custom.began",
        "event_version": "1.0.0",
        "timestamp": "2026-01-01T00:00:00Z",
        "trace_id": trace_id,
        "emitter_id": "emt_began",
        "emitter_seq": 1,
        "span_id": "00000000000000c1",
    }
    send(collector, began)
    send(collector, part(trace_id, emitter_id="emt_other", emitter_seq=1))
    send(collector, part(trace_id, emitter_id="emt_began", emitter_seq=2))

    assert b"emt_began" in tape(collector, trace_id).body


def test_tape_of_an_emitter_without_one_is_not_found(collector, recorded, trace_id):
    answer = tape(collector, trace_id, "?emitter_id=emt_unknown")

    assert answer.status == 404
    assert "emt_unknown" in answer.json()["error"]["message"]
