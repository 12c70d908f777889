"""The spool: numbered lines on disk that survive any failure of their writer."""

import errno
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.conftest import spool_files
from tracereel._export.spool import SPOOL_ERROR, SPOOL_FULL, EmitterLock, Spool, segment_path
from tracereel._export.spool_reader import SpoolReader, dead_emitters
from tracereel._export.trace_state import TraceState
from tracereel._telemetry.delivery_slo import look_at


def make(directory: Path, **options: Any) -> Spool:
    return Spool(directory / "dest", **{"max_bytes": 10_000_000, **options})


def put(
    spool: Spool, number: int, trace: TraceState | None = None, *, closes: bool | None = False
) -> str | None:
    return spool.append({"number": number}, trace, closes_run=closes)


def drain(outbox: SpoolReader) -> list[dict[str, Any]]:
    events = []
    while (batch := outbox.read()) is not None:
        events += [json.loads(line) for line in batch.lines]
        outbox.settle(batch.lines)
    return events


def dead(directory: Path) -> list[SpoolReader]:
    return list(dead_emitters(directory / "dest"))


def test_events_are_read_back_in_order_with_their_numbers(tmp_path: Path) -> None:
    spool, trace = make(tmp_path), TraceState("t", "r")
    put(spool, 1, trace)
    put(spool, 2)
    put(spool, 3, trace, closes=True)
    events = drain(SpoolReader(spool.directory, str(spool.emitter_id)))
    assert [event["number"] for event in events] == [1, 2, 3]
    assert [event["emitter_seq"] for event in events] == [1, 2, 3]
    assert [event.get("trace_seq") for event in events] == [1, None, 2]
    assert events[2]["trace_event_count"] == 2
    assert {event["emitter_id"] for event in events} == {spool.emitter_id}


def test_events_queued_when_their_run_closed_update_the_event_count(tmp_path: Path) -> None:
    spool, trace = make(tmp_path), TraceState("t", "r")
    for number, closes in enumerate([None, True, None, None, False, None], 1):
        put(spool, number, trace, closes=closes)
    events = drain(SpoolReader(spool.directory, str(spool.emitter_id)))
    # The fifth reopens the run, so it stays open afterwards.
    assert [event.get("trace_event_count") for event in events] == [None, 2, 3, 4, None, None]
    assert spool.closed_again == 2


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    spool = make(tmp_path)
    put(spool, 1)
    assert stat.S_IMODE(spool.directory.stat().st_mode) == 0o700
    outbox = SpoolReader(spool.directory, str(spool.emitter_id))
    drain(outbox)
    outbox.set_aside(b"{}\n", "why")
    files = list(spool.directory.iterdir())
    assert len(files) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    lock = next(path for path in files if path.suffix == ".lock")
    assert lock.read_text() == f"{os.getpid()}\n"


def test_nothing_is_created_before_the_first_event(tmp_path: Path) -> None:
    make(tmp_path).close(settled=10**9)
    assert not list(tmp_path.iterdir())


def test_segments_rotate_and_shipped_ones_are_unlinked(tmp_path: Path) -> None:
    spool = make(tmp_path, segment_bytes=1000)
    for number in range(50):
        put(spool, number)
    before = len(list(spool.directory.glob("*.ndjson")))
    outbox = SpoolReader(spool.directory, str(spool.emitter_id), on_unlink=spool.released)
    assert [event["number"] for event in drain(outbox)] == list(range(50))
    assert before >= 5
    assert len(list(spool.directory.glob("*.ndjson"))) == 1
    assert spool.used_bytes == sum(path.stat().st_size for path in spool.directory.glob("*.ndjson"))


def test_a_full_spool_refuses_before_numbering_and_recovers(tmp_path: Path) -> None:
    spool = make(tmp_path, max_bytes=4000)
    reasons = [put(spool, number) for number in range(100)]
    written = reasons.index(SPOOL_FULL)
    assert reasons == [None] * written + [SPOOL_FULL] * (100 - written)
    assert sum(path.stat().st_size for path in spool.directory.iterdir()) <= 4200
    outbox = SpoolReader(spool.directory, str(spool.emitter_id), on_unlink=spool.released)
    drain(outbox)
    assert put(spool, 100) is None
    assert [event["emitter_seq"] for event in drain(outbox)] == [written + 1]


def test_leftover_spools_count_towards_the_limit(tmp_path: Path) -> None:
    first = make(tmp_path)
    for number in range(50):
        put(first, number)
    first.close(settled=-1)
    second = make(tmp_path, max_bytes=4000)
    put(second, 1)
    assert put(second, 2) == SPOOL_FULL


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_disk_error_is_a_reason_and_spends_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    spool = make(tmp_path)
    put(spool, 1)
    real = os.write

    def fail(file: int, data: bytes) -> int:
        raise OSError(number, "disk")

    monkeypatch.setattr(os, "write", fail)
    assert put(spool, 2) == SPOOL_ERROR
    monkeypatch.setattr(os, "write", real)
    assert put(spool, 3) is None
    events = drain(SpoolReader(spool.directory, str(spool.emitter_id)))
    assert [(event["number"], event["emitter_seq"]) for event in events] == [(1, 1), (3, 2)]


@pytest.mark.parametrize("can_truncate", [True, False])
def test_a_short_write_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_truncate: bool
) -> None:
    spool = make(tmp_path)
    put(spool, 1)
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:10]))
    if not can_truncate:
        monkeypatch.setattr(os, "ftruncate", _no_truncate)
    assert put(spool, 2) == SPOOL_ERROR
    monkeypatch.setattr(os, "write", real)
    assert put(spool, 3) is None
    events = drain(SpoolReader(spool.directory, str(spool.emitter_id)))
    assert [(event["number"], event["emitter_seq"]) for event in events] == [(1, 1), (3, 2)]


def _no_truncate(file: int, size: int) -> None:
    raise OSError(errno.EIO, "disk")


def test_a_directory_that_cannot_be_made_drops_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dest").write_text("a file in the way")
    spool = make(tmp_path)
    assert put(spool, 1) == SPOOL_ERROR
    (tmp_path / "dest").unlink()
    assert put(spool, 2) == SPOOL_ERROR, "not tried for every event"
    monkeypatch.setattr("tracereel._export.spool.REOPEN_AFTER", 0.0)
    assert put(spool, 3) is None


def test_a_torn_last_line_of_a_dead_emitter_is_ignored(tmp_path: Path) -> None:
    spool = make(tmp_path)
    put(spool, 1)
    emitter = str(spool.emitter_id)
    spool.close(settled=-1)
    with segment_path(spool.directory, emitter, 1).open("ab") as file:
        file.write(b'{"number": 2, "tru')
    (outbox,) = dead(tmp_path)
    assert [event["number"] for event in drain(outbox)] == [1]
    outbox.finish()
    assert spool_files(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"garbage", b"-1 -5\n", b"\xff\xfe"])
def test_a_damaged_offset_means_from_the_start(tmp_path: Path, content: bytes) -> None:
    spool = make(tmp_path)
    put(spool, 1)
    emitter = str(spool.emitter_id)
    drain(SpoolReader(spool.directory, emitter))
    (spool.directory / f"{emitter}.offset").write_bytes(content)
    assert len(drain(SpoolReader(spool.directory, emitter))) == 1


def test_reader_skips_to_the_next_segment_if_its_own_is_gone(tmp_path: Path) -> None:
    spool = make(tmp_path, segment_bytes=1)
    for number in range(4):
        put(spool, number)
    emitter = str(spool.emitter_id)
    (spool.directory / f"{emitter}.offset").write_text("2 0\n")
    segment_path(spool.directory, emitter, 2).unlink()
    assert [event["number"] for event in drain(SpoolReader(spool.directory, emitter))] == [2, 3]


def test_reading_resumes_at_the_settled_offset(tmp_path: Path) -> None:
    spool = make(tmp_path)
    for number in range(5):
        put(spool, number)
    emitter = str(spool.emitter_id)
    outbox = SpoolReader(spool.directory, emitter)
    batch = outbox.read(max_lines=3)
    assert batch is not None
    outbox.settle(batch.lines[:2])
    again = SpoolReader(spool.directory, emitter)
    assert again.count() == 3
    assert [event["number"] for event in drain(again)] == [2, 3, 4]


def test_a_line_larger_than_a_batch_is_read_whole(tmp_path: Path) -> None:
    spool = make(tmp_path)
    spool.append({"text": "x" * 5000}, None, closes_run=False)
    batch = SpoolReader(spool.directory, str(spool.emitter_id)).read(max_bytes=1000)
    assert batch is not None
    assert len(json.loads(batch.lines[0])["text"]) == 5000


def test_a_line_larger_than_a_batch_is_sent_alone(tmp_path: Path) -> None:
    spool = make(tmp_path)
    for size in (10, 5000, 10, 10):
        spool.append({"text": "x" * size}, None, closes_run=False)
    outbox = SpoolReader(spool.directory, str(spool.emitter_id))
    batches = []
    while (batch := outbox.read(max_bytes=1000)) is not None:
        batches.append([len(json.loads(line)["text"]) for line in batch.lines])
        outbox.settle(batch.lines)
    assert batches == [[10], [5000], [10, 10]]


def test_the_numbers_of_an_event_are_before_its_large_content(tmp_path: Path) -> None:
    spool, trace = make(tmp_path), TraceState("t", "r")
    event = {"hlc": "0" * 16, "result": "x" * 5000, "status": "success"}
    spool.append(event, trace, closes_run=True)
    spool.append({"result": "short"}, None, closes_run=False)
    batch = SpoolReader(spool.directory, str(spool.emitter_id)).read()
    assert batch is not None
    large, small = batch.lines
    facts, _, content = large.partition(b',"content_bytes":')
    length, _, fields = content.partition(b",")
    assert json.loads(facts + b"}") == {
        "hlc": "0" * 16,
        "status": "success",
        "emitter_id": spool.emitter_id,
        "emitter_seq": 1,
        "trace_seq": 1,
        "trace_event_count": 1,
    }
    assert json.loads(b"{" + fields) == {"result": "x" * 5000}
    assert int(length) == len(b"{" + fields.rstrip())
    assert json.loads(small)["result"] == "short"
    assert look_at(batch.lines).runs_closed == 1


def test_a_living_emitter_is_not_adopted_and_a_closed_one_is(tmp_path: Path) -> None:
    spool = make(tmp_path)
    put(spool, 1)
    assert dead(tmp_path) == []
    spool.close(settled=-1)
    (outbox,) = dead(tmp_path)
    assert dead(tmp_path) == [], "one adopter at a time"
    outbox.release()
    assert len(dead(tmp_path)) == 1


def test_closed_empty_spool_is_removed_and_reopened_by_a_later_event(tmp_path: Path) -> None:
    spool, trace = make(tmp_path), TraceState("t", "r")
    put(spool, 1, trace)
    first = spool.emitter_id
    spool.close(settled=10**9)
    assert spool_files(tmp_path) == []
    put(spool, 2, trace)
    assert spool.emitter_id not in (None, first)
    (event,) = drain(SpoolReader(spool.directory, str(spool.emitter_id)))
    assert (event["emitter_seq"], event["trace_seq"]) == (1, 1)


def test_unlinked_lock_file_is_not_acquired(tmp_path: Path) -> None:
    path = tmp_path / "e.lock"
    held = EmitterLock.take(path, create=True)
    assert held is not None
    assert EmitterLock.take(path, create=True) is None
    assert EmitterLock.take(path, create=False) is None
    held.release(remove=True)
    assert EmitterLock.take(path, create=False) is None


def test_reentrant_event_is_written_after_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler that calls traced code neither deadlocks nor mixes lines."""
    spool = make(tmp_path)
    put(spool, 1)
    real = os.write

    def interrupted(file: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", real)
        put(spool, 3)
        return real(file, data)

    monkeypatch.setattr(os, "write", interrupted)
    put(spool, 2)
    events = drain(SpoolReader(spool.directory, str(spool.emitter_id)))
    assert [(event["number"], event["emitter_seq"]) for event in events] == [(1, 1), (2, 2), (3, 3)]


def test_a_reader_beside_many_writers_sees_every_line_once(tmp_path: Path) -> None:
    spool = make(tmp_path, segment_bytes=5000)
    put(spool, 0)
    outbox = SpoolReader(spool.directory, str(spool.emitter_id), on_unlink=spool.released)

    def write() -> None:
        for number in range(200):
            put(spool, number)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    events = []
    while any(thread.is_alive() for thread in threads):
        events += drain(outbox)
    events += drain(outbox)
    assert [event["emitter_seq"] for event in events] == list(range(1, 1602))


def test_refused_lines_are_kept_with_their_reason_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = make(tmp_path)
    put(spool, 1)
    outbox = SpoolReader(spool.directory, str(spool.emitter_id))
    assert outbox.set_aside(b'{"a":1}\n', "unknown type")
    kept = (spool.directory / f"{spool.emitter_id}.rejected.ndjson").read_text()
    assert json.loads(kept) == {"reason": "unknown type", "line": '{"a":1}'}
    monkeypatch.setattr("tracereel._export.spool_reader.MAX_REJECTED_BYTES", 10)
    assert not outbox.set_aside(b"{}\n", "x")


def test_an_existing_spool_directory_of_ours_is_closed_to_others(tmp_path: Path) -> None:
    directory = tmp_path / "spool" / "d"
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    spool = Spool(directory, max_bytes=100_000)
    assert spool.append({"a": 1}, None, closes_run=False) is None
    spool.close(settled=-1)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("trap", ["another owner", "a link", "an open parent"])
def test_a_spool_directory_that_others_control_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    parent, directory = tmp_path / "spool", tmp_path / "spool" / "d"
    parent.mkdir()
    if trap == "a link":
        (tmp_path / "elsewhere").mkdir()
        directory.symlink_to(tmp_path / "elsewhere")
    else:
        directory.mkdir(mode=0o700)
    if trap == "another owner":
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    if trap == "an open parent":
        parent.chmod(0o777)
    spool = Spool(directory, max_bytes=100_000)
    assert spool.append({"a": 1}, None, closes_run=False) == "spool_error"
    assert not list(directory.iterdir())


def test_a_shared_sticky_parent_is_allowed(tmp_path: Path) -> None:
    parent = tmp_path / "spool"
    parent.mkdir()
    parent.chmod(0o1777)
    spool = Spool(parent / "d", max_bytes=100_000)
    assert spool.append({"a": 1}, None, closes_run=False) is None
    spool.close(settled=-1)
