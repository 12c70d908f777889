"""Queue on a logged disk, and its guarantees after a power cut at any moment."""

from contextlib import contextmanager

from tests.support import disk as disks
from tests.support.conservation import conserved_queue
from tracereel_collector.model import Body, EmitterRun, Kind
from tracereel_collector.queue import DurableQueue, QueueLimits, database

LIMITS = QueueLimits(commit_bytes=1 << 20, max_pending_bytes=1 << 30, retain_seconds=0)
BATCH = {"max_records": 5, "max_bytes": 1 << 30}
NAME = "queue.sqlite"


def numbered(number):
    """Return a body that contains its number; some are longer than a page."""
    return Body(
        kind=Kind.EVENTS,
        tenant="default",
        received_unix_nano=10**18 + number,
        data=b"%d " % number + b"x" * (9_000 * (number % 3)),
        records=1,
        runs=(EmitterRun("e", number + 1, 1),) if number % 2 else (),
    )


def record(folder, rounds=6):
    """Return a log of a queue's file operations, with marks at each acknowledgement."""
    with disks.watched() as disk, _folder_syncs(disk):
        number = 0
        for life in range(2):
            queue = DurableQueue(folder / NAME, LIMITS)
            # Frequent checkpoints, several of which are cut off.
            queue._connection.execute("PRAGMA wal_autocheckpoint=12")
            for _ in range(rounds):
                for _ in range(4):
                    queue.append(numbered(number)).result(10)
                    disk.mark(("acknowledged", number))
                    number += 1
                batch = queue.next_batch(Kind.EVENTS, **BATCH)
                if batch is not None and life + number % 3:
                    queue.done(batch, stored=batch.records, quarantined=[])
                    disk.mark(("stored", batch.records))
                    queue._forgotten_at = 0.0
                    queue.tidy()
            queue.close()
    return disk.log


@contextmanager
def _folder_syncs(disk):
    """Log the queue's own sync of its directory, which bypasses SQLite."""
    original = database.sync

    def noting(folder):
        original(folder)
        disk.log.append(("folder", folder.name))

    database.sync = noting
    try:
        yield
    finally:
        database.sync = original


def check(log, cut, rnd, folder):
    """Cut the power, restart, and check the queue's guarantees."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(
        f"{NAME}*"
    ):  # the reserve file may stay: creating one takes longer than the rest
        old.unlink()
    for name, data in disks.after_power_cut(log, cut, rnd).items():
        (folder / name).write_bytes(data)
    promised = [entry[1] for entry in log[:cut] if entry[0] == "mark"]
    acknowledged = {value for what, value in promised if what == "acknowledged"}
    stored = sum(value for what, value in promised if what == "stored")

    queue = DurableQueue(folder / NAME, LIMITS)
    try:
        assert queue.damaged_files == []
        before = queue.counters()
        waiting = []
        while batch := queue.next_batch(Kind.EVENTS, **BATCH):
            bodies = queue.bodies_of(batch)
            assert sum(body.records for body in bodies) == batch.records
            waiting += [int(body.data.split()[0]) for body in bodies]
            queue.done(batch, stored=batch.records, quarantined=[])
        delivered = before["stored", "events"]
        # Batches take bodies in order, so the present bodies are an unbroken prefix.
        assert delivered >= stored
        assert waiting == list(range(delivered, delivered + len(waiting)))
        assert acknowledged <= set(range(delivered + len(waiting)))
        assert conserved_queue(queue)["stored"] == delivered + len(waiting)
        queue.append(numbered(10**6)).result(10)
    finally:
        queue.close()
