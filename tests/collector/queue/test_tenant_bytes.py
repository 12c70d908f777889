"""Per-tenant bytes in queue and quarantine: exact after every commit, bounded by a share."""

import sqlite3
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracereel_collector.errors import ThrottledError
from tracereel_collector.model import Kind, Marks, Quarantined
from tracereel_collector.queue import DurableQueue, QueueLimits
from tracereel_collector.runtime.tenant_shares import SharePolicy

LIMITS = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1000, retain_seconds=0)
ROOMY = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0)
BIG = {"max_records": 10_000, "max_bytes": 1 << 30}


@pytest.fixture
def refused():
    return []


@pytest.fixture
def policy(refused):
    return SharePolicy(
        has_several_tenants=lambda: True, on_refused=lambda *what: refused.append(what)
    )


def fill(queue, body, tenant, size=50):
    """Append until the queue refuses; return the accepted bytes and the refusal."""
    taken = 0
    while True:
        each = body(b"x" * size, tenant=tenant)
        try:
            queue.append(each).result(10)
        except ThrottledError as error:
            return taken, error
        taken += len(each.data)


def quarantine_all(queue, reason="no"):
    batch = queue.next_batch(Kind.EVENTS, **BIG)
    refused = [
        Quarantined(
            kind=each.kind,
            tenant=each.tenant,
            sequence_number=each.first_sequence_number,
            records=each.records,
            reason=reason,
            received_unix_nano=each.received_unix_nano,
            data=each.data,
        )
        for each in queue.bodies_of(batch)
    ]
    queue.done(batch, stored=0, quarantined=refused)


def test_tenant_that_fills_its_share_leaves_room_for_others(open_queue, body, policy, refused):
    queue = open_queue(LIMITS, shares=policy)

    taken, error = fill(queue, body, "noisy")

    assert taken <= 500
    assert f"this tenant has {taken} bytes that wait for the store and 0 in quarantine" in str(
        error
    )
    assert refused == [("queue_bytes", "share")]
    assert fill(queue, body, "quiet")[0] > 100
    assert queue.refusal() is None


def test_quarantine_counts_for_the_share_until_it_is_dropped(open_queue, body, policy):
    queue = open_queue(LIMITS, shares=policy)
    taken, _ = fill(queue, body, "noisy")
    quarantine_all(queue)

    with pytest.raises(ThrottledError, match=f"{taken} in quarantine"):
        queue.append(body(b"x" * 200, tenant="noisy"))
    assert queue.append(body(b"x" * 200, tenant="quiet")).result(10).appended == 1

    for entry in queue.quarantine.entries(tenant="noisy"):
        queue.quarantine.drop(entry.id, tenant="noisy")
    assert queue.append(body(b"x" * 200, tenant="noisy")).result(10).appended == 1


def test_single_tenant_may_fill_the_whole_queue(open_queue, body):
    taken, error = fill(open_queue(LIMITS), body, "only")

    assert taken > 900
    assert "the limit is 1000" in str(error)


def test_share_survives_a_kill_and_agrees_across_workers(open_queue, body, policy, path):
    """A guest on the same file is another worker; a copy of the file is the state after a kill."""
    owner = open_queue(LIMITS, shares=policy, shared=True)
    guest = open_queue(LIMITS, shares=policy, shared=True, ring=lambda *_, **__: None)
    guest.append(body(b"y", tenant="quiet")).result(10)
    taken, _ = fill(owner, body, "noisy")

    guest.append(body(b"y", tenant="quiet")).result(10)
    with pytest.raises(ThrottledError, match=f"this tenant has {taken} bytes"):
        guest.append(body(b"x" * 100, tenant="noisy"))

    image = path.parent / "killed" / path.name
    image.parent.mkdir()
    for suffix in ("", "-wal"):
        (image.parent / (path.name + suffix)).write_bytes(
            (path.parent / (path.name + suffix)).read_bytes()
        )
    assert recorded(image)["noisy"] == (taken, 0)
    again = DurableQueue(image, LIMITS, shares=policy)
    with pytest.raises(ThrottledError, match=f"this tenant has {taken} bytes"):
        again.append(body(b"x" * 100, tenant="noisy"))
    again.close()


def recorded(path):
    with sqlite3.connect(path) as other:
        rows = other.execute(
            "SELECT tenant, sum(pending), sum(quarantined) FROM held_bytes GROUP BY tenant"
        ).fetchall()
    return {tenant: (pending, aside) for tenant, pending, aside in rows if pending or aside}


def counted(path):
    """Compute the same from the rows: bodies outside of delivered batches, and quarantine."""
    pending, aside = Counter(), Counter()
    with sqlite3.connect(path) as other:
        done = other.execute(
            "SELECT kind, first_body, last_body FROM batches WHERE done_unix_nano IS NOT NULL"
        ).fetchall()
        for id_, kind, tenant, size in other.execute("SELECT id, kind, tenant, bytes FROM bodies"):
            if not any(kind == of and low <= id_ <= high for of, low, high in done):
                pending[tenant] += size
        for tenant, size in other.execute("SELECT tenant, length(data) FROM quarantine"):
            aside[tenant] += size
    tenants = {*pending, *aside}
    return {
        tenant: (pending[tenant], aside[tenant])
        for tenant in tenants
        if pending[tenant] or aside[tenant]
    }


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from("abc"), st.integers(1, 40)),
        st.tuples(st.sampled_from(["store", "quarantine", "reopen"])),
        st.tuples(st.sampled_from(["retry", "drop", "purge"]), st.sampled_from("abc")),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_bytes_of_tenants_are_exact_after_every_commit(steps, tmp_path_factory, body):
    path = tmp_path_factory.mktemp("bytes") / "queue.sqlite"
    queue = DurableQueue(path, ROOMY)
    for name, *given_ in steps:
        if name == "append":
            tenant, size = given_
            line = b'{"trace_id": "gone", "x": "%s"}' % (b"x" * size)
            queue.append(body(line, tenant=tenant)).result(10)
        elif name == "reopen":
            queue.close()
            queue = DurableQueue(path, ROOMY)
        elif name == "store":
            if batch := queue.next_batch(Kind.EVENTS, max_records=3, max_bytes=1 << 20):
                queue.done(batch, stored=batch.records, quarantined=[])
        elif name == "quarantine":
            if queue.newest_body(Kind.EVENTS) and queue.next_batch(Kind.EVENTS, **BIG):
                quarantine_all(queue)
        elif name == "purge":
            queue.erasure.purge(*given_, Marks(traces=frozenset({"gone"})), up_to=1 << 60)
        else:
            act = queue.quarantine.retry if name == "retry" else queue.quarantine.drop
            for entry in queue.quarantine.entries(tenant=given_[0], limit=1):
                act(entry.id, tenant=given_[0])
        found = recorded(path)
        assert found == counted(path)
        assert sum(pending for pending, _ in found.values()) == queue.pending_bytes
        assert sum(aside for _, aside in found.values()) == queue.pressure().quarantined_bytes
    queue.close()
