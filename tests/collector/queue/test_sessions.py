"""Session ownership: the first user of a tenant owns a session; other claims are flagged."""

import itertools
import json
from dataclasses import replace

from tracereel_collector.model import Body, EmitterRun, Kind
from tracereel_collector.queue import sessions
from tracereel_collector.queue.batches import forget_old

DAY = 24 * 3600 * 1_000_000_000


def claims(*pairs, tenant="default"):
    """Return a body with one event per pair, as validation produces it."""
    lines = [
        json.dumps({"n": number, "session_id": session, "user_id": user}).encode()
        for number, (session, user) in enumerate(pairs)
    ]
    owners = tuple(dict.fromkeys(pair for pair in pairs if None not in pair))
    return Body(
        kind=Kind.EVENTS,
        tenant=tenant,
        received_unix_nano=0,
        data=b"\n".join(lines),
        records=len(lines),
        owners=owners,
    )


def flags(queue):
    """Return the session flag of every stored event, in order."""
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


def test_foreign_users_are_refused_where_that_is_configured(open_queue):
    queue = open_queue(refuse_foreign_users=True)
    queue.append(claims(("s", "ana"))).result()
    receipt = queue.append(claims(("s", "bob"), ("s", "ana"), ("t", "bob"))).result()

    assert (receipt.appended, receipt.refused, receipt.foreign) == (2, 1, {("s", "bob")})
    assert flags(queue) == [False, False, False]
    counters = queue.counters()
    assert counters["received", "events"] == 4
    assert (counters["appended", "events"], counters["rejected", "events"]) == (3, 1)
    assert queue.session_mismatches() == 0


def test_a_refused_event_is_refused_again_and_its_number_stays_free(open_queue):
    queue = open_queue(refuse_foreign_users=True)
    queue.append(claims(("s", "ana"))).result()
    body = replace(
        claims(("s", "bob"), ("s", "ana"), ("s", "bob"), ("s", "ana")),
        runs=(EmitterRun("emt", 1, 4),),
    )

    first, again = queue.append(body).result(), queue.append(body).result()

    assert (first.appended, first.refused, first.duplicates) == (2, 2, 0)
    assert (again.appended, again.refused, again.duplicates) == (0, 2, 2)


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


def test_session_owner_expires_after_30_days(open_queue):
    now = [DAY]
    queue = open_queue(steady_nano=lambda: now[0])
    queue.append(claims(("s", "ana"))).result()
    now[0] = 20 * DAY
    queue.append(claims(("s", "ana"), ("x", None))).result()
    queue._writer.submit(
        lambda connection: forget_old(connection, now=40 * DAY, retain_seconds=10**9)
    ).result()
    queue._appender.forget()
    now[0] = 40 * DAY
    queue.append(claims(("s", "bob"))).result()
    queue._writer.submit(
        lambda connection: forget_old(connection, now=80 * DAY, retain_seconds=10**9)
    ).result()
    queue._appender.forget()
    now[0] = 80 * DAY
    queue.append(claims(("s", "eve"))).result()

    assert flags(queue) == [False, False, False, True, False]


def test_the_table_is_bounded_and_the_oldest_go_first(open_queue, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 100)
    monkeypatch.setattr(sessions, "COUNT_EVERY", 10)
    monkeypatch.setattr(sessions, "CACHED", 5)
    times = itertools.count()
    queue = open_queue(steady_nano=lambda: next(times))
    for number in range(500):
        queue.append(claims((f"s{number}", "ana"))).result()
    queue.append(claims(("s0", "bob"), ("s499", "bob"))).result()

    (rows,) = queue._read("SELECT count(*) FROM sessions")
    assert rows[0] <= 111
    assert len(queue._appender._sessions._owners) <= 5
    assert flags(queue)[-2:] == [False, True]


def test_sessions_and_users_are_stored_hashed(open_queue, path):
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
