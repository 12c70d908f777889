"""Faults between the spool and the collector: no event leaves the disk unacknowledged."""

import logging
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from prometheus_client import CollectorRegistry

import tracereel
from tests.sdk.export.test_shipper import agent, leave
from tests.support.ingest_sink import IngestSink
from tests.support.waiting import wait_until
from tracereel import FlushResult, config
from tracereel._export import spool_reader
from tracereel._export.leftovers import ship_leftovers
from tracereel._export.spool import Spool
from tracereel._export.spool_reader import MAX_REJECTED_TOTAL, dead_emitters, trim_rejected

Deliver = Callable[[], list[dict[str, Any]]]


class AlarmError(Exception):
    """Exception of a user-written timeout, raised from its signal handler."""


@contextmanager
def alarms() -> Iterator[None]:
    """Signal handler that raises wherever the program is."""

    def ring(*_: object) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def lines_of(directory: Path) -> list[dict[str, Any]]:
    lines = []
    for file in sorted(directory.glob("*.ndjson")):
        lines += [msgspec.json.decode(line) for line in file.read_bytes().split(b"\n")[:-1]]
    return lines


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_handler_that_raises_never_makes_two_events_share_a_number(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=50_000_000, segment_bytes=20_000)
    written = 0
    rounds = iter(range(3_000))
    left = True
    with alarms():
        while left:
            try:
                for number in rounds:
                    signal.setitimer(signal.ITIMER_REAL, 0.00001 + number % 50 * 0.000002)
                    reason = spool.append({"n": number}, None, closes_run=False)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    written += reason is None
                left = False
            except AlarmError:
                continue
    after = [spool.append({"n": "after"}, None, closes_run=False) for _ in range(5)]

    numbers = [line["emitter_seq"] for line in lines_of(tmp_path)]
    assert after == [None] * 5
    assert len(numbers) == len(set(numbers))
    assert len(numbers) >= written + 5
    assert spool.recorded == len(numbers)


def test_a_spool_that_cannot_be_read_now_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, 5)
    (outbox,) = dead_emitters(tmp_path)

    def too_many_files(*_: object) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(spool_reader.os, "open", too_many_files)
        with pytest.raises(OSError, match="Too many"):
            outbox.read()
    outbox.release()

    assert len(lines_of(tmp_path)) == 5


def test_more_dead_emitters_than_descriptors_are_shipped_all_the_same(
    sink: IngestSink, tmp_path: Path
) -> None:
    settings = config.load(endpoint=sink.url, spool_dir=tmp_path)
    for _ in range(150):
        leave(settings.destination_dir, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, hard))
    try:
        result = ship_leftovers(settings)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert result == FlushResult(150, 0, 0)
    assert list(settings.destination_dir.iterdir()) == []


def test_refused_events_do_not_crowd_out_new_ones(tmp_path: Path) -> None:
    (tmp_path / "emt_dead.rejected.ndjson").write_bytes(b"x" * 70_000)
    spool = Spool(tmp_path, max_bytes=65_536)

    assert spool.append({"n": 1}, None, closes_run=False) is None
    spool.refresh()
    assert spool.append({"n": 2}, None, closes_run=False) is None


def test_the_oldest_refused_events_go_when_there_are_too_many(tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / f"emt_{number}.rejected.ndjson"
        with path.open("wb") as file:
            file.truncate(MAX_REJECTED_TOTAL // 2)
        os.utime(path, (number, number))

    trim_rejected(tmp_path)

    assert sorted(path.name[:5] for path in tmp_path.iterdir()) == ["emt_1", "emt_2"]


def test_a_logging_handler_that_raises_hurts_neither_the_call_nor_the_delivery(
    sink: IngestSink, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("handler broke")

    monkeypatch.setenv("TRACEREEL_RAISE_INTERNAL_ERRORS", "0")
    handler = Broken()
    logger = logging.getLogger("tracereel")
    logger.addHandler(handler)
    try:
        tracereel.configure(endpoint="http://127.0.0.1:9", registry=registry)
        assert agent(1) == 1
        assert tracereel.flush(1.0).spooled == 2
        tracereel.configure(endpoint=sink.url, registry=registry)
        assert agent(2) == 2
        assert tracereel.flush(20.0).delivered == 2
    finally:
        logger.removeHandler(handler)


@pytest.fixture(params=["quiet", "structlog"])
def logged(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whether the program logs through structlog's default logger, which prints under a lock."""
    if request.param == "structlog":
        with open(os.devnull, "w") as nowhere:
            structlog.configure(logger_factory=structlog.PrintLoggerFactory(nowhere))
            yield
    else:
        structlog.reset_defaults()
        yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("logged")
def test_a_traced_call_in_a_signal_handler_does_not_hang(recorded: Deliver) -> None:
    rang = threading.Event()

    def ring(*_: object) -> None:
        agent(0)
        rang.set()

    before = signal.signal(signal.SIGALRM, ring)
    calls = 0
    try:
        for delay in range(1, 200):
            rang.clear()
            signal.setitimer(signal.ITIMER_REAL, delay * 0.000003)
            while not rang.is_set():
                agent(1)
                calls += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert len(recorded()) == 2 * (calls + 199)


def test_leftovers_of_children_are_delivered_at_the_parents_exit(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    """A child that ends without exit handlers, like those of multiprocessing."""
    tracereel.configure(endpoint=sink.url, registry=registry)
    agent(1)
    assert tracereel.flush(20.0).delivered == 2
    child = os.fork()
    if child == 0:
        agent(2)
        os._exit(0)
    os.waitpid(child, 0)

    tracereel._core.recorder.active().close(20.0, at_exit=True)

    wait_until(lambda: len(sink.events) == 4)


def test_an_outbox_that_was_shipped_leaves_nothing_behind(tmp_path: Path) -> None:
    emitter = leave(tmp_path, 2)
    (outbox,) = dead_emitters(tmp_path)
    batch = outbox.read()
    assert batch is not None
    outbox.settle(batch.lines)
    assert outbox.read() is None
    outbox.finish()

    assert list(tmp_path.glob(f"{emitter}*")) == []
