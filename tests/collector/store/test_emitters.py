"""Emitters in the store: latest heartbeat of each, and missing sequence numbers."""

import json
import time
import uuid
from dataclasses import replace

import pytest

from tracereel_collector.model import Kind
from tracereel_collector.query.emitters import Emitters
from tracereel_collector.runtime.clock import Dating
from tracereel_collector.store.retention import forget_emitters, silent_emitters

NOW = 1_769_162_400_000
"""Arrival time of the bodies in these tests, in milliseconds."""


@pytest.fixture
def empty(store):
    for table in ("emitters", "emitter_numbers"):
        store.command(f"TRUNCATE TABLE {table}")
    return store


@pytest.fixture
def say(empty, queued):
    """Store heartbeats as lines of one body."""

    def insert(*beats, tenant="default"):
        data = b"\n".join(json.dumps(beat(**each)).encode() for each in beats)
        body = queued(data, kind=Kind.HEARTBEATS, tenant=tenant)
        empty.insert(Kind.HEARTBEATS, [body], token=uuid.uuid4().hex)

    return insert


@pytest.fixture
def store_numbers(empty, queued):
    """Store events of an emitter with these numbers."""

    def insert(emitter_id, numbers, tenant="default"):
        events = [
            {
                "event_id": f"{emitter_id}-{number}",
                "event_type": "custom.numbered",
                "timestamp": "2026-01-23T10:00:00Z",
                "trace_id": "t",
                "service": "clinic",
                "emitter_id": emitter_id,
                "emitter_seq": number,
            }
            for number in numbers
        ]
        body = queued(b"\n".join(json.dumps(each).encode() for each in events), tenant=tenant)
        empty.insert(Kind.EVENTS, [body], token=uuid.uuid4().hex)

    return insert


def beat(emitter_id="emt_1", state="alive", recorded=10, **more):
    return {
        "emitter_id": emitter_id,
        "state": state,
        "sent_at": "2026-01-23T10:00:00Z",
        "recorded": recorded,
        "interval_seconds": 15.0,
        **more,
    }


def listed(store, *, seconds=0.0, tenant="default", **filters):
    document = Emitters(store).document(tenant, now_unix_milli=NOW + int(seconds * 1000), **filters)
    return json.loads(document)["emitters"]


def test_emitter_is_listed_with_its_heartbeat_and_missing_numbers(empty, say, store_numbers):
    say(
        {
            "recorded": 12,
            "rejected": 1,
            "spooled": 4,
            "dropped": {"spool_full": 3},
            "service": "clinic",
            "host": "box",
            "pid": 77,
            "sdk_version": "0.1.0",
            "started_at": "2026-01-23T09:59:00Z",
        }
    )
    store_numbers("emt_1", [1, 2, 3, 5, 6, 7])
    store_numbers("emt_1", [7])

    (found,) = listed(empty)

    assert found == {
        "emitter_id": "emt_1",
        "state": "alive",
        "service": "clinic",
        "host": "box",
        "pid": 77,
        "sdk_version": "0.1.0",
        "started_at": "2026-01-23T09:59:00.000000Z",
        "last_heartbeat_at": "2026-01-23T10:00:00.000000Z",
        "last_event_at": "2026-01-23T10:00:00.000000Z",
        "interval_seconds": 15.0,
        "claimed": 12,
        "stored": 6,
        "refused": 1,
        "missing": 5,
        "spooled": 4,
        "dropped": {"spool_full": 3},
    }


def test_emitter_is_silent_after_three_missed_heartbeats(empty, say):
    say({"emitter_id": "emt_1"}, {"emitter_id": "emt_2", "state": "ended"})

    def states(seconds):
        return {each["emitter_id"]: each["state"] for each in listed(empty, seconds=seconds)}

    assert states(45.0) == {"emt_1": "alive", "emt_2": "ended"}
    assert states(45.1) == {"emt_1": "silent", "emt_2": "ended"}
    assert [each["emitter_id"] for each in listed(empty, seconds=60, state="silent")] == ["emt_1"]


def test_latest_heartbeat_wins(empty, say):
    say({"recorded": 3})
    say({"recorded": 9, "state": "recovered"})

    (found,) = listed(empty, seconds=3600)

    assert (found["state"], found["claimed"], found["missing"]) == ("recovered", 9, 9)


def test_backward_clock_does_not_hide_the_latest_heartbeat(empty, queued):
    for hours, recorded in ((1, 3), (0, 9)):
        body = queued(
            json.dumps(beat(recorded=recorded, pid=recorded)).encode(), kind=Kind.HEARTBEATS
        )
        body = replace(body, received_unix_nano=body.received_unix_nano + hours * 3600 * 10**9)
        empty.insert(Kind.HEARTBEATS, [body], token=uuid.uuid4().hex)

    (found,) = listed(empty)

    assert (found["claimed"], found["pid"]) == (9, 9)


def test_emitters_expire_after_90_days(store, queued):
    """Also an emitter that only sent heartbeats, and not before its time."""
    tables = ("emitters", "emitter_numbers")
    for table in tables:
        store.command(f"TRUNCATE TABLE {table}")
    now = time.time_ns()
    for days, name in ((0, "now"), (89, "lately"), (91, "long_ago")):
        received = now - days * 86_400 * 10**9
        event = {"event_id": name, "event_type": "custom.x", "timestamp": "2026-01-23T10:00:00Z"}
        event |= {"trace_id": "t", "emitter_id": f"sent_{name}", "emitter_seq": 1}
        for kind, line in (
            (Kind.HEARTBEATS, beat(emitter_id=f"said_{name}")),
            (Kind.EVENTS, event),
        ):
            body = replace(
                queued(json.dumps(line).encode(), kind=kind), received_unix_nano=received
            )
            store.insert(kind, [body], token=uuid.uuid4().hex)

    dating = Dating(now_nano=now)
    for found in list(silent_emitters(store, dating)):
        forget_emitters(store, *found)
    assert list(silent_emitters(store, dating)) == []

    assert sorted(each["emitter_id"] for each in listed(store)) == [
        *("said_lately", "said_now", "sent_lately", "sent_now"),
    ]


def test_no_table_is_emptied_by_the_wall_clock_of_the_server(store):
    tables = store.rows(
        "SELECT name FROM system.tables WHERE database = currentDatabase()"
        " AND positionCaseInsensitive(engine_full, ' TTL ') > 0"
    )

    assert tables == []


def test_gaps_are_shown_without_heartbeats(empty, store_numbers):
    store_numbers("emt_mute", [1, 2, 4])

    (found,) = listed(empty)

    assert (found["state"], found["service"]) == ("unknown", "clinic")
    assert (found["claimed"], found["stored"], found["missing"]) == (4, 3, 1)
    assert found["last_heartbeat_at"] is None


def test_a_tenant_sees_its_own_emitters_only(empty, say, store_numbers):
    say({"emitter_id": "emt_same", "recorded": 5}, tenant="blue")
    store_numbers("emt_same", [1, 2], tenant="red")

    assert [each["claimed"] for each in listed(empty, tenant="blue")] == [5]
    assert [each["claimed"] for each in listed(empty, tenant="red")] == [2]
    assert listed(empty, tenant="green") == []


def test_filters_and_limit(empty, say):
    say(*({"emitter_id": f"emt_{n}", "service": f"s{n % 2}"} for n in range(6)))

    assert [each["emitter_id"] for each in listed(empty, service="s1")] == [
        "emt_1",
        "emt_3",
        "emt_5",
    ]
    assert [each["emitter_id"] for each in listed(empty, emitter_id="emt_4")] == ["emt_4"]
    assert len(listed(empty, limit=2)) == 2
