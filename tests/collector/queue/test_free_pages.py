"""The queue file shrinks in small steps and keeps no deleted text."""

import os
from itertools import pairwise

import pytest

from tests.support import disk
from tracereel_collector.model import Body, Kind, Marks
from tracereel_collector.queue import free_pages
from tracereel_collector.queue.database import PAGE_SIZE

MIB = 1024 * 1024
BIG = {"max_records": 1_000_000, "max_bytes": 1 << 30}
needs_disk = pytest.mark.skipif(not disk.available, reason="SQLite is inside of this Python")


def fill(queue, *, mib, word="word"):
    """Append bodies of 1 MiB each, with a marker on each of their pages."""
    for number in range(mib):
        text = f"{word} {os.urandom(8).hex()} " * (MIB // (len(word) + 18))
        line = f'{{"trace_id": "{word}", "number": {number}, "text": "{text}"}}'
        queue.append(
            Body(
                kind=Kind.EVENTS,
                tenant="default",
                received_unix_nano=1,
                data=line.encode(),
                records=1,
            )
        ).result(10)


def deliver(queue):
    queue.hurry(Kind.EVENTS)
    while (batch := queue.next_batch(Kind.EVENTS, **BIG)) is not None:
        queue.done(batch, stored=batch.records, quarantined=[])


def tidy(queue):
    queue._forgotten_at = 0.0  # as if a second had passed
    queue.tidy()


def free_bytes(queue):
    return queue._read("PRAGMA freelist_count")[0][0] * PAGE_SIZE


def written(log):
    return sum(len(entry[3]) for entry in log if entry[0] == "write")


def files_with(path, word):
    return [file.name for file in path.parent.iterdir() if word.encode() in file.read_bytes()]


def purge(queue, *words):
    queue.erasure.purge("default", Marks(traces=frozenset(words)), up_to=10**9)


def leave_free_pages(queue, *, mib, word="word"):
    """Return a queue whose delivered bodies left their text in free pages."""
    fill(queue, mib=mib, word=word)
    deliver(queue)
    tidy(queue)
    queue._read("PRAGMA wal_checkpoint(TRUNCATE)")
    assert free_bytes(queue) > 0.9 * mib * MIB


@needs_disk
def test_purge_does_not_write_over_pages_that_were_free_before(path, open_queue):
    with disk.watched() as watched:
        queue = open_queue()
        leave_free_pages(queue, mib=40)
        size = path.stat().st_size
        fill(queue, mib=1, word="deleted")
        deliver(queue)

        before = len(watched.log)
        purge(queue, "deleted")
        cost = written(watched.log[before:])

    assert cost < 10 * MIB  # used to be twice the free space
    assert path.stat().st_size < size // 20
    assert free_bytes(queue) == 0


def test_no_text_of_what_was_deleted_is_left_in_the_files(path, open_queue):
    queue = open_queue()
    leave_free_pages(queue, mib=20, word="secret")
    fill(queue, mib=5, word="other")
    fill(queue, mib=5, word="secret")
    assert files_with(path, "secret")
    deliver(queue)
    fill(queue, mib=3, word="kept")

    purge(queue, "secret")

    assert files_with(path, "secret") == []
    assert queue._read("PRAGMA integrity_check") == [("ok",)]
    batch = queue.next_batch(Kind.EVENTS, **BIG)
    assert [b'"kept"' in each.data for each in queue.bodies_of(batch)] == [True] * 3


@needs_disk
def test_file_shrinks_in_steps_that_are_small(path, open_queue, monkeypatch):
    monkeypatch.setattr(free_pages, "KEPT_PAGES", 4 * MIB // PAGE_SIZE)
    monkeypatch.setattr("tracereel_collector.queue.queue.SHORTEN_SECONDS", 0.0)
    with disk.watched() as watched:
        queue = open_queue()
        fill(queue, mib=30)
        fill(queue, mib=1, word="last")  # this body stays, at the end of the file
        batch = queue.next_batch(Kind.EVENTS, max_records=30, max_bytes=1 << 30)
        queue.done(batch, stored=batch.records, quarantined=[])
        queue._read("PRAGMA wal_checkpoint(TRUNCATE)")
        sizes = [path.stat().st_size]
        before = len(watched.log)
        while free_bytes(queue) > 4 * MIB:
            tidy(queue)
            queue._read("PRAGMA wal_checkpoint(PASSIVE)")
            sizes.append(path.stat().st_size)
        log = watched.log[before:]

    assert all(later <= earlier for earlier, later in pairwise(sizes))
    assert sizes[-1] < sizes[0] // 3
    # One commit waits for the data written between two syncs of the WAL.
    commits = [0]
    for what, file, *rest in log:
        if what == "sync" and file.endswith("-wal"):
            commits.append(0)
        elif what == "write" and file.endswith("-wal"):
            commits[-1] += len(rest[1])
    assert len(commits) > 20
    assert max(commits) < 3 * MIB
    deliverable = queue.next_batch(Kind.EVENTS, **BIG)
    assert [b'"last"' in each.data for each in queue.bodies_of(deliverable)] == [True]
