"""Queue followers: resuming after a given sequence number."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collector.queue.conftest import LIMITS
from tracereel_collector.model import Body, Kind
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.queue.following import QueueFollower

KINDS = (Kind.EVENTS, Kind.SPANS)


def append(queue, body):
    return queue.append(body).result(10)


def numbers_behind(follower, position):
    """Return every sequence number that a reader would receive."""
    found = []
    for head in follower.heads_after(position.body_id):
        stored = follower.body(head.id)
        first = stored.first_sequence_number
        found += [each for each in range(first, first + stored.records) if each > position.number]
    return found


def test_a_follower_sees_what_is_appended_after_now(open_queue, body):
    queue = open_queue()
    append(queue, body())
    follower = queue.follow(*KINDS)
    now = follower.now()
    receipt = append(queue, body(b'{"a":1}', b'{"a":2}'))

    (head,) = follower.heads_after(now.body_id)

    assert head.first_sequence_number == receipt.first_sequence_number == now.number + 1
    assert follower.body(head.id).data.startswith(b'{"a":1}\n{"a":2}')
    follower.close()


def test_other_kinds_and_on_demand_other_tenants_are_left_out(open_queue, body):
    queue = open_queue()
    follower = queue.follow(*KINDS)
    append(queue, body(kind=Kind.METRICS))
    append(queue, body(tenant="acme"))
    append(queue, body(tenant="other"))

    assert [head.tenant for head in follower.heads_after(0)] == ["acme", "other"]
    assert [head.tenant for head in follower.heads_after(0, tenant="acme")] == ["acme"]
    follower.close()


def test_follower_reports_deleted_bodies_as_missed(open_queue, body):
    queue = open_queue(
        QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0)
    )
    follower = queue.follow(*KINDS)
    append(queue, body(b"{}", b"{}"))
    batch = queue.next_batch(Kind.EVENTS, max_records=10, max_bytes=1 << 20)
    queue.done(batch, stored=2, quarantined=[])
    queue._forgotten_at = 0
    queue.tidy()
    append(queue, body())

    assert follower.after(0).missed_before == 3
    assert numbers_behind(follower, follower.after(0)) == [3]
    assert follower.after(2).missed_before is None
    follower.close()


def test_unknown_sequence_number_restarts_the_follower(open_queue, body):
    queue = open_queue()
    append(queue, body())
    follower = queue.follow(*KINDS)

    position = follower.after(1_000)

    assert (position.number, position.missed_before) == (1, 2)
    follower.close()


def test_a_damaged_body_is_not_shown(open_queue, body):
    queue = open_queue()
    receipt = append(queue, body())
    follower = queue.follow(*KINDS)
    queue._writer.submit(lambda connection: connection.execute("UPDATE bodies SET checksum=1"))
    append(queue, body())

    assert follower.body(receipt.body_id) is None
    assert follower.body(receipt.body_id + 1) is not None
    follower.close()


@settings(max_examples=25)
@given(
    sizes=st.lists(st.tuples(st.sampled_from([*KINDS, Kind.LOGS]), st.integers(1, 4)), max_size=8),
    data=st.data(),
)
def test_after_any_number_every_later_one_is_read_once_in_order(tmp_path_factory, sizes, data):
    path = tmp_path_factory.mktemp("follow") / "queue.sqlite"
    queue = DurableQueue(path, LIMITS)
    follower = QueueFollower(path, kinds=KINDS)
    shown, last = [], 0
    for index, (kind, records) in enumerate(sizes):
        lines = b"\n".join(b'{"n":%d}' % index for _ in range(records))
        receipt = append(
            queue,
            Body(kind=kind, tenant="t", received_unix_nano=1, data=lines, records=records),
        )
        first = receipt.first_sequence_number
        last = first + records - 1
        shown += range(first, last + 1) if kind in KINDS else ()
    seen = data.draw(st.integers(0, last))

    position = follower.after(seen)

    assert numbers_behind(follower, position) == [each for each in shown if each > seen]
    follower.close()
    queue.close()
