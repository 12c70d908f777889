"""In-memory spool when the disk is unusable: bounded, with every loss counted."""

import errno
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import tracereel
from tests.sdk.conftest import Child
from tests.sdk.export.test_shipper import agent
from tests.support.ingest_sink import Behaviour, IngestSink
from tests.support.waiting import wait_until
from tracereel import FlushResult
from tracereel._export import shipper
from tracereel._export import spool as _spool
from tracereel._export.memory_segments import SEGMENT_BYTES, MemorySegments
from tracereel._export.spool import SPOOL_ERROR, Spool
from tracereel._export.spool_reader import SpoolReader

EVENT = {
    "event_id": "evt_1",
    "event_type": "custom.large",
    "event_version": "1.0.0",
    "timestamp": "2026-01-01T00:00:00Z",
    "trace_id": "t",
}


@pytest.fixture
def in_the_way(tmp_path: Path) -> Path:
    """Put a file where the spool directory should be."""
    path = tmp_path / "file"
    path.write_text("")
    return path


@pytest.fixture
def start(in_the_way: Path, registry: CollectorRegistry) -> Callable[[str], None]:
    def configure(endpoint: str) -> None:
        tracereel.configure(
            endpoint=endpoint, spool_dir=in_the_way, registry=registry, heartbeat_seconds=0.05
        )

    return configure


def put(spool: Spool, size: int = 10, **more: object) -> str | None:
    return spool.append({**EVENT, "text": "x" * size, **more}, None, closes_run=False)


def dropped(registry: CollectorRegistry) -> float:
    name = "tracereel_sdk_events_dropped_total"
    return registry.get_sample_value(name, {"reason": "spool_error"}) or 0.0


def test_events_are_delivered_from_memory_as_from_disk(
    sink: IngestSink,
    start: Callable[[str], None],
    in_the_way: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    start(sink.url)
    for number in range(500):
        agent(number)
    assert tracereel.flush(20.0) == FlushResult(1000, 0, 0)
    assert [event["emitter_seq"] for event in sink.events] == list(range(1, 1001))
    assert len({event["emitter_id"] for event in sink.events}) == 1
    assert {event["trace_seq"] for event in sink.events} == {1, 2}
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"the spool {in_the_way}" in caplog.text
    assert "Not a directory" in caplog.text
    wait_until(lambda: any(beat["recorded"] == 1000 for beat in sink.heartbeats))


def test_in_memory_events_are_counted_as_lost_at_shutdown(
    start: Callable[[str], None], registry: CollectorRegistry
) -> None:
    with IngestSink() as gone:
        away = gone.url
    start(away)
    for number in range(5):
        agent(number)
    assert tracereel.flush(0.2) == FlushResult(0, 10, 0)
    assert tracereel.shutdown(0.2) == FlushResult(0, 0, 10)
    wait_until(lambda: dropped(registry) == 10)
    agent(6)
    assert tracereel.flush(0.0) == FlushResult(0, 0, 12), "nobody would send it from memory"


def test_a_destination_that_hangs_at_the_end_does_not_make_them_look_kept(
    start: Callable[[str], None],
) -> None:
    with IngestSink() as sink:
        sink.behaviour = Behaviour(hang=True)
        start(sink.url)
        agent(1)
        assert tracereel.flush(0.2) == FlushResult(0, 2, 0)
        assert tracereel.shutdown(0.1) == FlushResult(0, 0, 2)


def test_refused_events_do_not_need_a_disk(sink: IngestSink, start: Callable[[str], None]) -> None:
    sink.behaviour = Behaviour(poison=lambda event: event.get("input_summary") == "number: 2")
    start(sink.url)
    for number in range(4):
        agent(number)
    assert tracereel.flush(20.0) == FlushResult(7, 0, 1)


def test_memory_is_bounded_and_given_back(in_the_way: Path) -> None:
    spool = Spool(in_the_way, max_bytes=1 << 30, memory_bytes=8 * SEGMENT_BYTES)
    taken = 0
    while put(spool, 100_000) is None:
        taken += 1
    assert 75 <= taken <= 84
    assert put(spool, 100_000) == SPOOL_ERROR
    assert spool.memory.size <= 8 * SEGMENT_BYTES

    outbox = SpoolReader(
        in_the_way, str(spool.emitter_id), memory=spool.memory, on_unlink=spool.released
    )
    seen = 0
    while (batch := outbox.read()) is not None:
        outbox.settle(batch.lines)
        seen += len(batch.lines)
    assert seen == taken == spool.recorded
    assert spool.memory.size <= SEGMENT_BYTES
    assert put(spool, 100_000) is None
    assert spool.used_bytes <= 2 * SEGMENT_BYTES
    spool.close(settled=0)
    assert spool.memory.size == 0


@pytest.mark.parametrize("can_truncate", [True, False])
def test_a_disk_that_fills_up_costs_the_event_that_met_it_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_truncate: bool
) -> None:
    spool = Spool(tmp_path / "dest", max_bytes=1 << 30, memory_bytes=1 << 20)
    assert put(spool) is None
    real = os.write

    def write(file: int, data: bytes) -> int:
        if os.fstat(file).st_nlink:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data)

    def truncate(file: int, size: int) -> None:
        raise OSError(errno.EIO, "disk")

    monkeypatch.setattr(os, "write", write)
    if not can_truncate:
        monkeypatch.setattr(os, "ftruncate", truncate)
    assert [put(spool) for _ in range(4)] == [SPOOL_ERROR, None, None, None]
    monkeypatch.undo()
    spool.refresh()
    monkeypatch.setattr(_spool, "REOPEN_AFTER", 0.0)
    assert put(spool) is None
    assert spool.memory.numbers() == [2]

    outbox = SpoolReader(tmp_path / "dest", str(spool.emitter_id), memory=spool.memory)
    batches = []
    while (batch := outbox.read()) is not None:
        outbox.settle(batch.lines)
        batches.append(len(batch.lines))
    assert batches == [1, 3, 1]
    assert spool.sequence == spool.recorded == 5
    spool.close(settled=5)


def test_recovered_disk_is_used_again_with_continuous_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Disk and memory segments alternate; readers see one sequence of numbers."""
    monkeypatch.setattr(_spool, "REOPEN_AFTER", 0.0)
    directory = tmp_path / "dest"
    directory.write_text("in the way")
    spool = Spool(directory, max_bytes=1 << 30, memory_bytes=1 << 20)
    assert [put(spool) for _ in range(3)] == [None] * 3
    directory.unlink()
    assert put(spool) is None, "still in memory: the disk is not tried for every event"
    spool.refresh()
    assert [put(spool) for _ in range(2)] == [None] * 2
    assert len(list(directory.glob("*.ndjson"))) == 1
    assert len(list(directory.glob("*.lock"))) == 1

    outbox = SpoolReader(directory, str(spool.emitter_id), memory=spool.memory)
    lines = []
    while (batch := outbox.read()) is not None:
        outbox.settle(batch.lines)
        lines += batch.lines
    assert [json.loads(line)["emitter_seq"] for line in lines] == [1, 2, 3, 4, 5, 6]
    spool.close(settled=6)
    assert list(directory.iterdir()) == []


def test_delivery_continues_when_the_disk_recovers(
    sink: IngestSink,
    start: Callable[[str], None],
    in_the_way: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_spool, "REOPEN_AFTER", 0.0)
    monkeypatch.setattr(
        shipper.Shipper.__init__, "__kwdefaults__", {"linger": 0.0, "scan_interval": 0.01}
    )
    start(sink.url)
    agent(1)
    tracereel.flush(20.0)
    in_the_way.unlink()

    def on_disk() -> bool:
        agent(2)
        return any(in_the_way.rglob("*.ndjson"))

    wait_until(on_disk)
    assert tracereel.flush(20.0).spooled == 0
    numbers = [event["emitter_seq"] for event in sink.events]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len({event["emitter_id"] for event in sink.events}) == 1


def test_a_forked_child_does_not_send_what_its_parent_has_in_memory(
    sink: IngestSink, child: Child, in_the_way: Path
) -> None:
    sink.behaviour = Behaviour(status=503)
    process = child(
        """
        import os, sys, tracereel
        @tracereel.traced_agent("a")
        def agent(who): pass
        for _ in range(10):
            agent("parent")
        tracereel.flush(0.1)
        if os.fork() == 0:
            agent("child")
            print("recorded", flush=True)
            input()
            sys.exit()
        os.wait()
        """,
        TRACEREEL_ENDPOINT=sink.url,
        TRACEREEL_SPOOL_DIR=str(in_the_way),
        TRACEREEL_EXIT_TIMEOUT="20",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "recorded\n"
    sink.behaviour = Behaviour()
    _, errors = process.communicate("\n", timeout=60)
    assert process.returncode == 0, errors
    by_emitter: dict[str, list[int]] = {}
    for event in sink.events:
        by_emitter.setdefault(event["emitter_id"], []).append(event["emitter_seq"])
    assert sorted(by_emitter.values()) == [[1, 2], list(range(1, 21))]


def test_a_segment_in_memory_can_be_cut_back_like_a_file() -> None:
    """The next line starts where a truncated one began."""

    segments = MemorySegments()
    writer = segments.open(3)
    os.write(writer, b"whole\n")
    os.write(writer, b"hal")
    os.ftruncate(writer, 6)
    os.write(writer, b"next\n")
    os.close(writer)
    assert segments.read(3, 100, 0) == b"whole\nnext\n"
    assert segments.numbers() == [3]
    assert segments.remove(3) == 11
    assert segments.read(3, 100, 0) is None
    assert segments.remove(3) is None
