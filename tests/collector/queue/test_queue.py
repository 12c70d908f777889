"""Queue guarantees: durable appends, unique sequence numbers, immutable batches."""

import itertools
import sqlite3
import threading

import pytest

from tests.support.conservation import conserved_queue
from tracereel_collector.errors import QueueUnavailableError, ThrottledError
from tracereel_collector.model import Kind, Quarantined
from tracereel_collector.queue import QueueLimits
from tracereel_collector.queue import append as append_module

BIG = {"max_records": 1_000_000, "max_bytes": 1 << 30}


def append(queue, body):
    return queue.append(body).result(10)


def counts(queue, kind=Kind.EVENTS):
    return {name: value for (name, of), value in queue.counters().items() if of == kind}


def test_accepted_records_are_numbered_in_order_without_gaps(open_queue, body):
    queue = open_queue()

    first, second = append(queue, body(b"a", b"b", b"c")), append(queue, body(b"d"))

    assert (first.first_sequence_number, first.appended) == (1, 3)
    assert second.first_sequence_number == 4


def test_numbers_continue_after_a_restart(open_queue, body):
    queue = open_queue()
    append(queue, body(b"a", b"b"))
    queue.close()

    assert append(open_queue(), body(b"c")).first_sequence_number == 3


def test_concurrent_appends_all_get_numbers_of_their_own(open_queue, body):
    queue = open_queue()

    receipts = [future.result(10) for future in [queue.append(body()) for _ in range(200)]]

    assert sorted(each.first_sequence_number for each in receipts) == list(range(1, 201))


def test_resent_records_are_deduplicated(open_queue, body):
    queue = open_queue()
    append(queue, body(b"1", b"2", b"3", runs=[("e", 1, 3)]))

    again = append(queue, body(b"2", b"3", b"4", runs=[("e", 2, 3)]))

    assert (again.appended, again.duplicates) == (1, 2)
    batch = queue.next_batch(Kind.EVENTS, **BIG)
    assert [each.data for each in queue.bodies_of(batch)] == [b"1\n2\n3", b"4"]
    assert counts(queue)["duplicate"] == 2


def test_numbers_that_arrive_late_are_not_taken_for_duplicates(open_queue, body):
    queue = open_queue()
    append(queue, body(b"5", runs=[("e", 5, 1)]))

    assert append(queue, body(b"4", runs=[("e", 4, 1)])).appended == 1


def test_the_ledger_survives_a_restart(open_queue, body):
    queue = open_queue()
    append(queue, body(b"1", runs=[("e", 1, 1)]))
    queue.close()

    assert append(open_queue(), body(b"1", runs=[("e", 1, 1)])).duplicates == 1


def test_emitters_of_two_tenants_may_share_a_name(open_queue, body):
    queue = open_queue()
    append(queue, body(b"1", runs=[("e", 1, 1)], tenant="a"))

    assert append(queue, body(b"1", runs=[("e", 1, 1)], tenant="b")).appended == 1


def test_the_same_bytes_without_a_ledger_are_kept_once_per_tenant_and_kind(open_queue, body):
    queue = open_queue()
    append(queue, body(b"x", unique=False))

    assert append(queue, body(b"x", unique=False)).duplicates == 1
    assert append(queue, body(b"x", unique=False, tenant="b")).appended == 1
    assert append(queue, body(b"x", unique=False, kind=Kind.SPANS)).appended == 1


def test_digest_of_a_body_is_a_duplicate_for_fifteen_minutes_only(open_queue, body):
    clock = [0]
    queue = open_queue(steady_nano=lambda: clock[0])
    first = body(b"x", unique=False)
    append(queue, first)

    def after(minutes):
        clock[0] = minutes * 60 * 1_000_000_000
        return append(queue, first)

    assert after(14).duplicates == 1
    assert after(16).appended == 1
    assert after(30).duplicates == 1


def test_a_batch_keeps_its_range_and_token_until_it_is_done(open_queue, body):
    queue = open_queue()
    append(queue, body(b"a"))
    sealed = queue.next_batch(Kind.EVENTS, **BIG)
    append(queue, body(b"b"))
    queue.close()
    queue = open_queue()

    assert queue.next_batch(Kind.EVENTS, **BIG) == sealed

    queue.done(sealed, stored=1, quarantined=[])
    following = queue.next_batch(Kind.EVENTS, **BIG)
    assert following.token != sealed.token
    assert [each.data.strip() for each in queue.bodies_of(following)] == [b"b"]


def test_a_batch_is_cut_by_records_and_by_bytes_but_never_empty(open_queue, body):
    queue = open_queue()
    for _ in range(3):
        append(queue, body(b"x" * 50, b"y" * 50))

    assert queue.next_batch(Kind.EVENTS, max_records=4, max_bytes=1 << 30).records == 4
    queue = open_queue()
    append(queue, body(b"z" * 500, kind=Kind.SPANS))
    assert queue.next_batch(Kind.SPANS, max_records=10, max_bytes=10).records == 1


def test_kinds_are_batched_apart(open_queue, body):
    queue = open_queue()
    append(queue, body(b"a"))
    append(queue, body(b"s", kind=Kind.SPANS))
    append(queue, body(b"b"))

    spans, events = (queue.next_batch(kind, **BIG) for kind in (Kind.SPANS, Kind.EVENTS))

    assert [each.data.strip() for each in queue.bodies_of(spans)] == [b"s"]
    assert [each.data.strip() for each in queue.bodies_of(events)] == [b"a", b"b"]


def test_counters_balance_at_every_step(open_queue, body):
    queue = open_queue()
    append(queue, body(b"a", b"b", rejected=2))
    append(queue, body(b"c", unique=False))
    append(queue, body(b"c", unique=False))
    batch = queue.next_batch(Kind.EVENTS, **BIG)
    poison = Quarantined(
        kind=Kind.EVENTS,
        tenant="default",
        sequence_number=1,
        records=1,
        received_unix_nano=7,
        data=b"a",
        reason="cannot be stored",
    )
    queue.done(batch, stored=2, quarantined=[poison])

    assert conserved_queue(queue) == {
        "received": 6,
        "rejected": 2,
        "rejected:other": 2,
        "duplicate": 1,
        "appended": 4,
        "stored": 2,
        "quarantined": 1,
        "retried": 0,
        "dropped": 0,
        "damaged": 0,
        "relayed": 0,
        "from_peers": 0,
    }
    (entry,) = queue.quarantine.entries(tenant="default")
    assert (entry.kind, entry.sequence_number, entry.reason) == ("events", 1, "cannot be stored")


def test_corrupted_body_is_skipped_and_counted(open_queue, body, path):
    queue = open_queue()
    append(queue, body(b"good"))
    append(queue, body(b"rotten"))
    with sqlite3.connect(path) as other:
        other.execute("UPDATE bodies SET data = x'00' WHERE id = 2")
    batch = queue.next_batch(Kind.EVENTS, **BIG)

    readable = queue.bodies_of(batch)
    queue.done(batch, stored=sum(each.records for each in readable), quarantined=[])

    assert [each.data.strip() for each in readable] == [b"good"]
    assert counts(queue)["quarantined"] == 1


def test_delivered_bodies_leave_the_file(open_queue, body, path):
    queue = open_queue(now_unix_nano=lambda: 2_000_000_000)
    receipt = append(queue, body(b"a"))
    batch = queue.next_batch(Kind.EVENTS, **BIG)
    assert not queue.is_delivered(Kind.EVENTS, receipt.body_id)

    queue.done(batch, stored=1, quarantined=[])

    assert queue.is_delivered(Kind.EVENTS, receipt.body_id)
    assert queue.pending_bytes == 0
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT count(*) FROM bodies").fetchone() == (0,)


def test_appends_are_refused_when_too_much_waits_and_taken_again_afterwards(open_queue, body):
    queue = open_queue(QueueLimits(commit_bytes=1 << 20, max_pending_bytes=100, retain_seconds=0))
    append(queue, body(b"x" * 90))
    with pytest.raises(ThrottledError, match="the limit is 100"):
        queue.append(body(b"y" * 20))
    assert queue.refusal() is None

    queue.done(queue.next_batch(Kind.EVENTS, **BIG), stored=1, quarantined=[])

    assert append(queue, body(b"y" * 20)).appended == 1


def test_append_to_a_closed_queue_is_an_error(open_queue, body):
    queue = open_queue()
    queue.close()

    with pytest.raises(QueueUnavailableError, match="closed"):
        queue.append(body())
    queue.close()


def test_failed_append_does_not_affect_others_in_its_commit(open_queue, body):
    queue = open_queue()
    blocker = queue._writer.submit(lambda _: None)
    bad = queue._writer.submit(lambda connection: connection.execute("SELECT nonsense"))
    good = queue.append(body(b"fine"))

    blocker.result(10)
    with pytest.raises(QueueUnavailableError):
        bad.result(10)
    assert good.result(10).appended == 1
    assert counts(queue)["appended"] == 1


def test_cancelled_sender_does_not_stop_the_queue(open_queue, body):
    queue = open_queue()
    gate = threading.Event()
    blocker = queue._writer.submit(lambda _: gate.wait(10))
    abandoned = queue.append(body(b"gone"))
    assert abandoned.cancel()
    gate.set()

    assert blocker.result(10)
    assert append(queue, body(b"next")).appended == 1


def test_the_table_of_emitters_is_bounded(open_queue, body, monkeypatch):
    monkeypatch.setattr(append_module, "MAX_EMITTERS", 50)
    monkeypatch.setattr(append_module, "COUNT_EVERY", 10)
    times = itertools.count()
    queue = open_queue(steady_nano=lambda: next(times))
    for number in range(200):
        append(queue, body(b"{}", runs=[(f"e{number}", 1, 1)]))

    assert queue._read("SELECT count(*) FROM emitters")[0][0] <= 60
    assert append(queue, body(b"{}", runs=[("e199", 1, 1)])).duplicates == 1


def test_hurry_on_an_empty_queue_does_not_wake_waiters(open_queue, body):
    """Waking the thread each time would busy-loop until the next body arrives."""
    queue = open_queue()
    queue.hurry(Kind.EVENTS)
    found = []
    waiting = threading.Thread(
        target=lambda: found.append(queue.wait_for_bytes(Kind.EVENTS, 1 << 20, timeout=60))
    )
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()

    append(queue, body(b"a"))
    waiting.join(30)

    assert found == [1]
