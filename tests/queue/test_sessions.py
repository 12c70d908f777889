"""Within a tenant the first user seen owns a session; other claims are kept, flagged and counted."""

import json

from tracereel_collector.model import Body, Kind
from tracereel_collector.queue import sessions
from tracereel_collector.queue.batches import forget_old

DAY = 24 * 3600 * 1_000_000_000


def claims(*pairs, tenant="default", at=0):
    """A body of one event per pair, as the check hands it over."""
    lines = [
        json.dumps({"n": number, "session_id": session, "user_id": user}).encode()
        for number, (session, user) in enumerate(pairs)
    ]
    owners = tuple(dict.fromkeys(pair for pair in pairs if None not in pair))
    return Body(
        kind=Kind.EVENTS,
        tenant=tenant,
        received_unix_nano=at,
        data=b"\n".join(lines),
        records=len(lines),
        owners=owners,
    )


def flags(queue):
    """Which of all events kept so far carry the flag, in order."""
    queue.hurry(Kind.EVENTS)
    batch = queue.next_batch(Kind.EVENTS, max_records=10**6, max_bytes=10**9)
    found = [
        json.loads(line).get("session_user_mismatch", False)
        for body in queue.bodies_of(batch)
        for line in body.data.split(b"\n")
    ]
    queue.done(batch, stored=batch.records, quarantined=[])
    return found


def test_the_first_user_owns_the_session_and_others_are_flagged(open_queue):
    queue = open_queue()
    queue.append(claims(("s", "ana"), ("s", "bob"), ("s", None), ("t", "bob"))).result()
    queue.append(claims(("s", "ana"), ("s", "eve"), ("t", "ana"))).result()

    assert flags(queue) == [False, True, False, False, False, True, True]
    assert queue.session_mismatches() == 3
    assert queue.counters()["appended", "events"] == 7


def test_owners_survive_a_restart(open_queue):
    queue = open_queue()
    queue.append(claims(("s", "ana"))).result()
    queue.close()

    queue = open_queue()
    queue.append(claims(("s", "bob"))).result()
    assert flags(queue) == [False, True]
    assert queue.session_mismatches() == 1


def test_sessions_of_two_tenants_may_share_a_name(open_queue):
    queue = open_queue()
    queue.append(claims(("s", "ana"), tenant="one")).result()
    queue.append(claims(("s", "bob"), tenant="two")).result()

    assert flags(queue) == [False, False]


def test_a_resend_is_a_duplicate_and_counts_nothing(open_queue):
    queue = open_queue()
    queue.append(claims(("s", "ana"))).result()
    for _ in range(3):
        queue.append(claims(("s", "bob"))).result()

    assert flags(queue) == [False, True]
    assert queue.session_mismatches() == 1


def test_a_session_nobody_spoke_of_for_a_month_is_anybodys(open_queue):
    queue = open_queue()
    queue.append(claims(("s", "ana"), at=DAY)).result()
    queue.append(claims(("s", "ana"), ("x", None), at=20 * DAY)).result()
    queue._writer.submit(
        lambda connection: forget_old(connection, now=40 * DAY, retain_seconds=10**9)
    ).result()
    queue._appender.forget()
    queue.append(claims(("s", "bob"), at=40 * DAY)).result()
    queue._writer.submit(
        lambda connection: forget_old(connection, now=80 * DAY, retain_seconds=10**9)
    ).result()
    queue._appender.forget()
    queue.append(claims(("s", "eve"), at=80 * DAY)).result()

    assert flags(queue) == [False, False, False, True, False]


def test_the_table_is_bounded_and_the_oldest_go_first(open_queue, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 100)
    monkeypatch.setattr(sessions, "COUNT_EVERY", 10)
    monkeypatch.setattr(sessions, "CACHED", 5)
    queue = open_queue()
    for number in range(500):
        queue.append(claims((f"s{number}", "ana"), at=number)).result()
    queue.append(claims(("s0", "bob"), ("s499", "bob"), at=500)).result()

    (rows,) = queue._read("SELECT count(*) FROM sessions")
    assert rows[0] <= 111
    assert len(queue._appender._sessions._owners) <= 5
    assert flags(queue)[-2:] == [False, True]


def test_neither_sessions_nor_users_are_kept_in_clear(open_queue, path):
    queue = open_queue()
    queue.append(claims(("session-of-ana", "ana@example.org"))).result()

    rows = queue._read("SELECT session, owner FROM sessions")
    assert len(rows) == 1
    assert b"ana" not in b"".join(rows[0])
    assert path.exists()


def test_an_append_that_fails_takes_no_ownership(open_queue):
    queue = open_queue()
    broken = claims(("s", "ana"))
    object.__setattr__(broken, "received_unix_nano", 2**70)
    assert queue.append(broken).exception() is not None

    queue.append(claims(("s", "bob"))).result()
    assert flags(queue) == [False]
