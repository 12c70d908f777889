"""Outbox of a queue: durable, in order, counted, and taken once."""

import sqlite3

import pytest

from tests.support.conservation import conserved_queue
from tests.support.waiting import wait_until
from tracereel_collector.model import Kind, Relay, RelayReceipt
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.queue.relays import lane

LIMITS = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0)


@pytest.fixture
def other(tmp_path):
    """Return the queue of another member."""
    queue = DurableQueue(tmp_path / "other" / "queue.sqlite", LIMITS)
    yield queue
    queue.close()


def outgoing(queue, owner="b", **limits):
    return queue.outbox.next(owner, **{"max_relays": 100, "max_bytes": 1 << 20, **limits})


def receipts_of(taken):
    return [
        each
        and RelayReceipt(
            appended=each.appended,
            duplicates=each.duplicates,
            refused=each.refused,
            first_sequence_number=each.first_sequence_number,
            body_id=each.body_id,
        )
        for each in taken
    ]


def hand_over(queue, other):
    """Send the outbox once and note what was taken."""
    going = outgoing(queue)
    queue.outbox.done(going, receipts_of(other.take(queue.id, going.relays).result()))
    return going


def test_a_relay_is_pending_until_its_owner_has_taken_it(open_queue, body, other):
    queue = open_queue()
    receipt = queue.relay(body(b"{}", b"{}"), owner="b").result()
    assert receipt.appended == 2
    assert receipt.first_sequence_number is None
    assert [owner for owner, _ in receipt.relayed] == ["b"]
    conserved_queue(queue, pending=2)
    conserved_queue(other)
    assert queue.pending_bytes > 0
    assert queue.pressure().oldest_seconds > 0

    hand_over(queue, other)
    assert conserved_queue(queue)["relayed"] == 2
    assert conserved_queue(other, pending=2)["from_peers"] == 2
    assert queue.pending_bytes == 0
    assert not outgoing(queue).relays


def test_relays_keep_what_the_owner_needs_across_a_restart(open_queue, body):
    queue = open_queue()
    sent = body(b"{}", b"{}", b"{}", runs=(("e", 4, 2), ("f", 9, 1)), tenant="t")
    queue.relay(sent, owner="b", passed="x,y").result()
    queue.close()
    queue = open_queue()
    (relay,) = outgoing(queue).relays
    assert relay.body == sent
    assert relay.passed == "x,y"
    assert queue.pending_bytes == len(sent.data)
    assert queue.wait_for_bytes(lane("b"), 1, timeout=0) == len(sent.data)
    assert queue.wait_for_bytes(Kind.EVENTS, 1, timeout=0) == 0


def test_each_owner_gets_its_own_relays_in_order(open_queue, body):
    queue = open_queue()
    for number in range(6):
        queue.relay(body(b"%d" % number), owner="bc"[number % 2]).result()
    assert [relay.body.data[:1] for relay in outgoing(queue, "b").relays] == [b"0", b"2", b"4"]
    assert [relay.body.data[:1] for relay in outgoing(queue, "c").relays] == [b"1", b"3", b"5"]
    assert len(outgoing(queue, "b", max_relays=2).relays) == 2
    assert len(outgoing(queue, "b", max_bytes=1).relays) == 1


def test_a_repeated_relay_is_recognised_by_its_id_whatever_its_ledger_has_forgotten(
    open_queue, body, other, path
):
    queue = open_queue()
    # Without a ledger, and the digest is forgotten before the repeat.
    queue.relay(body(b"{}"), owner="b").result()
    going = outgoing(queue)
    assert [each.appended for each in other.take(queue.id, going.relays).result()] == [1]
    other.close()
    with sqlite3.connect(path.parent.parent / "other" / "queue.sqlite") as file:
        file.execute("DELETE FROM digests")
    again = DurableQueue(path.parent.parent / "other" / "queue.sqlite", LIMITS)
    try:
        assert again.take(queue.id, going.relays).result() == [None]
        counted = conserved_queue(again, pending=1)
        assert counted["from_peers"] == counted["appended"] == 1
        # The same bytes from another queue are judged by the ledger.
        assert again.take("another", going.relays).result()[0].appended == 1
    finally:
        again.close()


def test_a_resend_through_another_member_is_a_duplicate_at_the_owner(open_queue, body, other):
    queue = open_queue()
    sent = body(b"{}", b"{}", runs=(("e", 1, 2),))
    assert other.append(sent).result().appended == 2
    queue.relay(sent, owner="b").result()
    hand_over(queue, other)
    counted = conserved_queue(other, pending=2)
    assert counted["duplicate"] == 2
    assert counted["from_peers"] == 2
    assert conserved_queue(queue)["relayed"] == 2


def test_the_receipt_of_the_owner_is_kept_for_who_waits(open_queue, body, other):
    queue = open_queue()
    other.append(body()).result()
    awaited = queue.relay(body(b"{}", b"{}"), owner="b", is_awaited=True).result().relayed[0][1]
    ignored = queue.relay(body(b"{}"), owner="b").result().relayed[0][1]
    assert queue.outbox.is_waiting(awaited)
    assert queue.outbox.receipt(awaited) is None
    hand_over(queue, other)
    assert not queue.outbox.is_waiting(awaited)
    receipt = queue.outbox.receipt(awaited)
    assert (receipt.appended, receipt.first_sequence_number) == (2, 2)
    assert queue.outbox.receipt(ignored) is None


def test_a_damaged_relay_is_counted_and_holds_up_nothing(open_queue, body, other, path):
    queue = open_queue()
    for _ in range(3):
        queue.relay(body(b"{}"), owner="b").result()
    with sqlite3.connect(path) as file:
        file.execute("UPDATE relays SET data=x'00' WHERE id=2")
    hand_over(queue, other)
    counted = conserved_queue(queue)
    assert (counted["relayed"], counted["quarantined"], counted["damaged"]) == (2, 1, 1)
    assert queue.pending_bytes == 0


def test_a_damaged_queue_keeps_its_readable_relays(open_queue, body, path, other):
    queue = open_queue()
    for number in range(20):
        queue.relay(body(b"%03d" % number * 8000), owner="b").result()
    other.relay(body(b"{}"), owner="a").result()
    queue.take(other.id, outgoing(other, "a").relays).result()
    queue.close()
    data = bytearray(path.read_bytes())
    page = data.index(b"012" * 5000) // 16384 * 16384
    data[page : page + 64] = b"\xff" * 64
    path.write_bytes(data)
    queue = open_queue()
    assert queue.damaged_files
    kept = {relay.body.data[:3] for relay in outgoing(queue).relays}
    assert kept == {b"%03d" % number for number in range(20) if number != 12}
    counted = conserved_queue(queue, pending=20)
    assert (counted["quarantined"], counted["damaged"]) == (1, 1)
    # What was taken from the other queue is still known.
    assert queue.take(other.id, outgoing(other, "a").relays).result() == [None]


def test_appends_to_the_outbox_wake_the_thread_that_relays(open_queue, body):
    queue = open_queue()
    queue.relay(body(b"{}"), owner="c").result()
    assert queue.wait_for_bytes(lane("b"), 1, timeout=0.01) == 0
    queue.relay(body(b"{}"), owner="b")
    wait_until(lambda: queue.wait_for_bytes(lane("b"), 1, timeout=5))


def test_relays_of_one_tenant_up_to_an_id_can_be_awaited(open_queue, body, other):
    queue = open_queue()
    assert queue.outbox.newest() == 0
    queue.relay(body(tenant="t"), owner="b").result()
    queue.relay(body(tenant="u"), owner="b").result()
    up_to = queue.outbox.newest()
    queue.relay(body(tenant="t"), owner="b").result()
    assert queue.outbox.waiting_of("t", up_to=up_to) == 1
    hand_over(queue, other)
    assert queue.outbox.waiting_of("t", up_to=up_to) == 0


def test_what_a_member_may_not_take_is_refused_before_anything_is_taken(body, tmp_path):
    full = DurableQueue(tmp_path / "full" / "queue.sqlite", LIMITS, free_bytes=lambda: -1)
    try:
        with pytest.raises(Exception, match="bytes of disk are free"):
            full.take("s", [Relay(id=1, body=body())])
    finally:
        full.close()
