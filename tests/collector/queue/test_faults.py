"""Full, failing or power-cut disks: acknowledged bodies are present exactly once."""

import shutil
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.conservation import conserved_queue
from tracereel_collector.errors import QueueUnavailableError
from tracereel_collector.model import Body, Kind
from tracereel_collector.queue import DurableQueue, QueueLimits, database
from tracereel_collector.queue import queue as queue_module

BIG = {"max_records": 10_000, "max_bytes": 1 << 30}
LIMITS = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0)


def contents(queue):
    batch = queue.next_batch(Kind.EVENTS, **BIG)
    return [body.data for body in queue.bodies_of(batch)] if batch else []


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Return the queue's files after each of some acknowledged appends, and a later WAL."""
    folder = tmp_path_factory.mktemp("images")
    queue = DurableQueue(folder / "queue.sqlite", LIMITS)
    sizes = []
    for number in range(12):
        data = b"body %d " % number + b"x" * 3000 * (number % 3)
        body = Body(kind=Kind.EVENTS, tenant="default", received_unix_nano=1, data=data, records=1)
        queue.append(body).result(10)
        sizes.append((folder / "queue.sqlite-wal").stat().st_size)
    main, wal = (folder / "queue.sqlite").read_bytes(), (folder / "queue.sqlite-wal").read_bytes()
    queue.close()
    return main, wal, sizes


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_after_a_power_cut_everything_acknowledged_before_it_is_there(
    images, tmp_path_factory, data
):
    """Data after the last sync is lost or torn at any byte; synced data is not."""
    main, wal, sizes = images
    acknowledged = data.draw(st.integers(0, len(sizes) - 1))
    torn = data.draw(st.integers(0, len(wal) - sizes[acknowledged]))
    noise = data.draw(st.binary(max_size=64))
    folder = tmp_path_factory.mktemp("cut")
    (folder / "queue.sqlite").write_bytes(main)
    (folder / "queue.sqlite-wal").write_bytes(wal[: sizes[acknowledged] + torn] + noise)

    queue = DurableQueue(folder / "queue.sqlite", LIMITS)

    found = [int(each.split()[1]) for each in contents(queue)]
    assert found == list(range(len(found)))
    assert len(found) > acknowledged
    queue.close()
    shutil.rmtree(folder)


def test_a_full_disk_is_never_acknowledged_and_delivery_makes_room(open_queue, body):
    queue = open_queue()
    (pages,) = queue._connection.execute("PRAGMA page_count").fetchone()
    queue._connection.execute(f"PRAGMA max_page_count={pages + 12}")
    taken, full = [], False
    while not full:
        data = b"%d " % len(taken) + b"x" * 20_000
        try:
            queue.append(body(data, unique=False)).result(10)
            taken.append(data)
        except QueueUnavailableError:
            full = True
    assert taken
    assert queue.refusal() is not None

    batch = queue.next_batch(Kind.EVENTS, **BIG)
    assert [each.data for each in queue.bodies_of(batch)] == taken
    queue.done(batch, stored=len(taken), quarantined=[])
    queue._forgotten_at = 0.0
    queue.tidy()

    queue.append(body(b"fits again")).result(10)
    assert queue.refusal() is None
    assert conserved_queue(queue, pending=1)["stored"] == len(taken)


class FailingConnection(sqlite3.Connection):
    """Fail the N-th statement of the writer, before or after executing it, once or permanently."""

    plan = None

    def execute(self, sql, *parameters):
        plan = FailingConnection.plan
        if plan is None or sql.startswith("PRAGMA") or not plan.due():
            return super().execute(sql, *parameters)
        if plan.after:
            super().execute(sql, *parameters)
        raise sqlite3.OperationalError("disk I/O error")


class Plan:
    def __init__(self, nth, *, after, lasting):
        self.left, self.after, self.lasting = nth, after, lasting
        self.struck = False

    def due(self):
        self.left -= 1
        strike = self.left == 0 or (self.lasting and self.left < 0)
        self.struck = self.struck or strike
        return strike


@pytest.fixture
def failing_disk(monkeypatch):
    def connect(path):
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, factory=FailingConnection
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    monkeypatch.setattr(database, "connect", connect)
    monkeypatch.setattr(queue_module, "connect", connect)
    yield
    FailingConnection.plan = None


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_any_statement_error_loses_or_duplicates_no_acknowledged_body(
    failing_disk, open_queue, body, path, after, lasting
):
    """The N-th statement fails, for N = 1, 2, 3 … until a run meets no failure."""
    nth, struck = 0, True
    while struck:
        nth += 1
        queue = open_queue()
        acknowledged = []
        FailingConnection.plan = plan = Plan(nth, after=after, lasting=lasting)
        numbers = range(nth * 10, nth * 10 + 3)
        for number in numbers:
            try:
                receipt = queue.append(body(b"%d" % number, runs=(("e", number, 1),))).result(10)
            except QueueUnavailableError:
                continue
            assert receipt.appended + receipt.duplicates == 1
            acknowledged.append(number)
        FailingConnection.plan = None
        struck = plan.struck
        for number in numbers:  # the sender resends unacknowledged bodies
            if number not in acknowledged:
                queue.append(body(b"%d" % number, runs=(("e", number, 1),))).result(10)
        assert queue.refusal() is None or lasting
        batch = queue.next_batch(Kind.EVENTS, **BIG)
        assert sorted(int(each.data) for each in queue.bodies_of(batch)) == list(numbers)
        queue.done(batch, stored=3, quarantined=[])
        conserved_queue(queue)
        queue.close()
    assert nth > 10


def test_two_processes_worth_of_queues_share_numbers_duplicates_and_limits(open_queue, path, body):
    """An owner and two guests, as with several workers: one counter, one ledger, one limit."""
    owner = open_queue(shared=True)
    rung = []

    def ring(kinds, /, *, hurry):
        rung.append((kinds, hurry))

    guests = [open_queue(shared=True, ring=ring) for _ in range(2)]
    run = (("e", 1, 1),)

    first = guests[0].append(body(b"a", runs=run)).result(10)
    again = guests[1].append(body(b"a", runs=run)).result(10)
    other = guests[1].append(body(b"b")).result(10)

    assert (first.appended, again.appended, again.duplicates) == (1, 0, 1)
    assert other.first_sequence_number == first.first_sequence_number + 1
    assert rung == [({Kind.EVENTS}, False)] * 2
    owner.note_appends(set())
    assert owner.pending_bytes == 2
    batch = owner.next_batch(Kind.EVENTS, **BIG)
    owner.done(batch, stored=2, quarantined=[])
    assert guests[0].is_delivered(Kind.EVENTS, first.body_id)
    for queue in (owner, *guests):
        assert conserved_queue(queue)["stored"] == 2
