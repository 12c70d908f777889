"""Audit log: append-only, bounded, aggregated by minute, no torn lines with concurrent writers."""

import json
import multiprocessing
import resource
import stat
from contextlib import contextmanager

import pytest

from tracereel_collector.auth.audit import FILES, MAX_SUBJECTS, AuditLog
from tracereel_collector.errors import ServiceUnavailableError


def lines(folder):
    files = sorted(folder.glob("audit.ndjson*"), reverse=True)
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_audit_writes_first_use_at_once_then_once_a_minute(tmp_path):
    clock = [0.0]
    log = AuditLog(tmp_path, monotonic=lambda: clock[0])
    for second in range(150):
        clock[0] = float(second)
        log.note("key.used", key="k1", peer="1.2.3.4")
        log.flush()

    assert [line["count"] for line in lines(tmp_path)] == [1, 60, 60]
    log.flush(everything=True)
    assert sum(line["count"] for line in lines(tmp_path)) == 150


def test_acts_are_written_with_their_time(tmp_path):
    AuditLog(tmp_path).act("key.created", key="k1", scopes=["read"])

    (line,) = lines(tmp_path)
    assert (line["event"], line["key"], line["scopes"]) == ("key.created", "k1", ["read"])
    assert line["time"].endswith("+00:00")
    assert stat.S_IMODE((tmp_path / "audit.ndjson").stat().st_mode) == 0o600


def test_files_are_bounded_in_number_and_size(tmp_path):
    log = AuditLog(tmp_path, max_bytes=2000)
    for number in range(400):
        log.act("key.created", number=number)

    files = list(tmp_path.glob("audit.ndjson*"))
    assert len(files) == FILES
    assert max(file.stat().st_size for file in files) <= 2000
    numbers = [line["number"] for line in lines(tmp_path)]
    assert numbers == list(range(numbers[0], 400))


def test_audit_aggregates_many_addresses_into_one_line(tmp_path):
    log = AuditLog(tmp_path)
    for number in range(MAX_SUBJECTS + 500):
        log.note("request.refused", reason="unknown_key", peer=f"10.0.{number >> 8}.{number & 255}")
    log.flush()

    found = lines(tmp_path)
    assert len(found) == MAX_SUBJECTS + 1
    assert sum(line["count"] for line in found) == MAX_SUBJECTS + 500
    assert found[-1]["peer"] == "other"


def _write(folder, name):
    log = AuditLog(folder, max_bytes=20_000)
    for number in range(200):
        log.act("key.used", by=name, number=number)


def test_processes_that_write_together_lose_no_line_and_tear_none(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(tmp_path, str(each))) for each in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    found = lines(tmp_path)
    for name in ("0", "1"):
        assert [line["number"] for line in found if line["by"] == name] == list(range(200))


def test_audit_write_failure_is_counted_and_not_raised(tmp_path):
    (tmp_path / "audit").write_text("a file")
    lost = []
    log = AuditLog(tmp_path / "audit", on_error=lost.append)
    log.note("key.used", key="k1")
    log.flush()

    assert lost == [1]


@contextmanager
def room_for(size):
    """Limit the size of files; a write across the limit is cut short, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_act_that_is_written_in_part_is_refused_and_leaves_no_part(tmp_path):
    log = AuditLog(tmp_path)
    log.act("key.created", key="k1")
    full = (tmp_path / "audit.ndjson").stat().st_size + 20

    with room_for(full), pytest.raises(ServiceUnavailableError, match="File too large"):
        log.act("key.created", key="k2")
    log.act("key.created", key="k3")

    assert [line["key"] for line in lines(tmp_path)] == ["k1", "k3"]


def test_counts_that_are_written_in_part_are_lost_and_leave_no_part(tmp_path):
    lost = []
    log = AuditLog(tmp_path, on_error=lost.append)
    log.note("key.used", key="k1")
    log.note("key.used", key="k2")
    with room_for(100):
        log.flush()

    assert lost == [2]
    assert lines(tmp_path) == []
