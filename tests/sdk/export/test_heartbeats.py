"""Heartbeats report an emitter's progress, also for an emitter that has died."""

import os
import signal
import threading
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

import tracereel
from tests.sdk.conftest import Child, spool_files, wait_for_events
from tests.sdk.export.test_shipper import agent, configured, leave
from tests.support.ingest_sink import Behaviour, IngestSink
from tests.support.waiting import wait_until
from tracereel import FlushResult
from tracereel._export.leftovers import ship_leftovers
from tracereel.heartbeats import Heartbeat


def start(sink: IngestSink, **more: object) -> None:
    settings: dict[str, object] = {"heartbeat_seconds": 0.05, "registry": CollectorRegistry()}
    tracereel.configure(endpoint=sink.url, service="clinic", **(settings | more))  # type: ignore[arg-type]


def test_heartbeats_report_progress_and_end(sink: IngestSink) -> None:
    start(sink)
    for number in range(3):
        agent(number)
    wait_until(lambda: [beat["delivered"] for beat in sink.heartbeats[-1:]] == [6])
    first = len(sink.heartbeats)
    wait_until(lambda: len(sink.heartbeats) > first, message="it goes on without events")
    tracereel.shutdown(5.0)

    for said in sink.heartbeats:
        msgspec.convert(said, Heartbeat)
    last = sink.heartbeats[-1]
    assert {beat["emitter_id"] for beat in sink.heartbeats} == {sink.events[0]["emitter_id"]}
    assert [beat["state"] for beat in sink.heartbeats].count("ended") == 1
    assert last["state"] == "ended"
    assert (last["recorded"], last["delivered"], last["spooled"], last["rejected"]) == (6, 6, 0, 0)
    assert (last["pid"], last["service"], last["interval_seconds"]) == (os.getpid(), "clinic", 0.05)
    assert last["started_at"] <= sink.heartbeats[0]["sent_at"]
    assert last["host"]
    assert last["sdk_version"]


def test_heartbeat_counts_rejected_and_dropped_events(sink: IngestSink) -> None:
    sink.behaviour = Behaviour(reject=lambda event: event.get("input_summary") == "number: 1")
    start(sink)
    tracereel.record_decision("outside of any execution", reasoning="", confidence=1.0)
    for number in range(2):
        agent(number)
    tracereel.flush(20.0)
    tracereel.shutdown(5.0)

    last = sink.heartbeats[-1]
    assert (last["recorded"], last["delivered"], last["rejected"]) == (4, 3, 1)
    assert last["dropped"] == {"no_execution": 1}


def test_heartbeat_counts_spooled_events_while_the_collector_refuses(sink: IngestSink) -> None:
    """The count is sent before the events, so the loss of a dead emitter is detectable."""
    sink.behaviour = Behaviour(status=503)
    start(sink)
    for number in range(10):
        agent(number)
    wait_until(lambda: any(beat["spooled"] == 20 for beat in sink.heartbeats))
    assert sink.heartbeats[-1]["delivered"] == 0
    sink.behaviour = Behaviour()
    assert tracereel.flush(20.0) == FlushResult(20, 0, 0)


def test_process_without_events_sends_no_heartbeat(sink: IngestSink) -> None:
    start(sink)
    tracereel.flush(1.0)
    tracereel.shutdown(1.0)

    assert sink.heartbeats == []
    assert sink.connections == 0


def test_heartbeat_interval_of_zero_disables_heartbeats(sink: IngestSink) -> None:
    start(sink, heartbeat_seconds=0)
    agent(1)
    tracereel.flush(20.0)
    tracereel.shutdown(5.0)
    leave(configured(sink.url).destination_dir, 3)
    ship_leftovers(configured(sink.url, heartbeat_seconds=0))

    assert len(sink.events) == 5
    assert sink.heartbeats == []


@pytest.mark.parametrize("status", [400, 404, 405, 302])
def test_heartbeats_stop_if_the_collector_refuses_them(
    sink: IngestSink, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    sink.behaviour = Behaviour(heartbeat_status=status)
    start(sink, heartbeat_seconds=0.01)
    for number in range(20):
        agent(number)
        assert tracereel.flush(20.0).spooled == 0
    tracereel.shutdown(5.0)

    assert len(sink.heartbeats) == 1
    assert caplog.records == []


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_heartbeats_continue_after_transient_errors(sink: IngestSink, status: int) -> None:
    sink.behaviour = Behaviour(heartbeat_status=status)
    start(sink, heartbeat_seconds=0.01)
    agent(1)
    wait_until(lambda: len(sink.heartbeats) >= 2)
    sink.behaviour = Behaviour()
    heard = len(sink.heartbeats)
    wait_until(lambda: len(sink.heartbeats) > heard)
    assert tracereel.flush(20.0) == FlushResult(2, 0, 0)


def test_heartbeats_that_hang_hold_neither_flush_nor_shutdown() -> None:
    """The destination accepts events, then hangs during a heartbeat."""
    with IngestSink() as sink:
        start(sink, heartbeat_seconds=0.01, exit_timeout=0.1)
        agent(1)
        assert tracereel.flush(20.0).spooled == 0
        wait_until(lambda: sink.heartbeats)
        sink.behaviour = Behaviour(hang=True)
        agent(2)
        assert tracereel.flush(0.2).spooled == 2
        tracereel.shutdown(0.1)


def test_shipper_of_a_dead_emitter_sends_its_heartbeat(sink: IngestSink) -> None:
    dead = leave(configured(sink.url).destination_dir, 7)
    start(sink)
    agent(1)
    wait_for_events(sink, 9)
    wait_until(lambda: any(beat["emitter_id"] == dead for beat in sink.heartbeats))
    tracereel.shutdown(5.0)

    (report,) = [beat for beat in sink.heartbeats if beat["emitter_id"] == dead]
    assert report["state"] == "recovered"
    assert (report["recorded"], report["delivered"], report["rejected"]) == (7, 7, 0)
    assert report["pid"] == os.getpid()
    assert report["started_at"] is not None


def test_ship_reports_too_and_counts_what_was_refused(sink: IngestSink) -> None:
    settings = configured(sink.url)
    dead = leave(settings.destination_dir, 4)
    sink.behaviour = Behaviour(reject=lambda event: event["number"] == 2)

    assert ship_leftovers(settings) == FlushResult(3, 0, 1)

    (report,) = sink.heartbeats
    assert (report["emitter_id"], report["recorded"], report["rejected"]) == (dead, 4, 1)


def test_an_emitter_whose_events_were_all_sent_is_reported_with_its_last_number(
    sink: IngestSink,
) -> None:
    """It was killed after the last response, before it could remove its files."""
    settings = configured(sink.url)
    leave(settings.destination_dir, 5)
    segment = next(settings.destination_dir.glob("*.ndjson"))
    offset = segment.with_name(segment.name.split(".")[0] + ".offset")
    offset.write_text(f"1 {segment.stat().st_size}\n")

    assert ship_leftovers(settings) == FlushResult(0, 0, 0)

    assert [(beat["state"], beat["recorded"]) for beat in sink.heartbeats] == [("recovered", 5)]


def test_a_report_that_did_not_get_through_is_made_with_the_next_heartbeat(
    sink: IngestSink,
) -> None:
    dead = leave(configured(sink.url).destination_dir, 2)
    sink.behaviour = Behaviour(heartbeat_status=503)
    start(sink)
    agent(1)
    wait_until(lambda: any(beat["emitter_id"] == dead for beat in sink.heartbeats))
    sink.heartbeats.clear()
    sink.behaviour = Behaviour()

    wait_until(lambda: any(beat["emitter_id"] == dead for beat in sink.heartbeats))
    heard = len(sink.heartbeats)
    wait_until(lambda: len(sink.heartbeats) > heard + 2)
    assert [beat["emitter_id"] for beat in sink.heartbeats].count(dead) == 1


def test_a_killed_emitter_has_claimed_its_tail_and_is_reported_by_the_next(
    sink: IngestSink, child: Child
) -> None:
    sink.behaviour = Behaviour(status=503)
    process = child(
        """
        import tracereel
        @tracereel.traced_agent("a")
        def agent(): pass
        for _ in range(50):
            agent()
        print("recorded", flush=True)
        input()
        """,
        TRACEREEL_ENDPOINT=sink.url,
        TRACEREEL_HEARTBEAT_SECONDS="0.05",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "recorded\n"
    wait_until(lambda: any(beat["recorded"] == 100 for beat in sink.heartbeats))
    process.send_signal(signal.SIGKILL)
    process.wait()
    claimed = sink.heartbeats[-1]
    assert (claimed["state"], claimed["recorded"], claimed["delivered"]) == ("alive", 100, 0)

    sink.behaviour = Behaviour()
    assert ship_leftovers(configured(sink.url)) == FlushResult(100, 0, 0)

    report = sink.heartbeats[-1]
    assert (report["emitter_id"], report["state"]) == (claimed["emitter_id"], "recovered")
    assert (report["recorded"], report["pid"]) == (100, process.pid)


def test_an_idle_shipper_sleeps_between_heartbeats(
    sink: IngestSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many more waits than heartbeats would indicate a busy loop."""
    start(sink, heartbeat_seconds=0.02)
    agent(1)
    tracereel.flush(20.0)
    wait_until(lambda: sink.heartbeats)
    waits = 0
    wait = threading.Event.wait

    def counted(self: threading.Event, timeout: float | None = None) -> bool:
        nonlocal waits
        waits += threading.current_thread().name == "tracereel-shipper"
        return wait(self, timeout)

    monkeypatch.setattr(threading.Event, "wait", counted)
    heard = len(sink.heartbeats)
    wait_until(lambda: len(sink.heartbeats) >= heard + 10)
    monkeypatch.undo()

    assert waits <= 40


def test_a_spool_directory_is_left_clean(sink: IngestSink, tmp_path: Path) -> None:
    dead = leave(configured(sink.url).destination_dir, 2)
    start(sink)
    agent(1)
    wait_for_events(sink, 4)
    wait_until(lambda: not list((tmp_path / "spool").rglob(f"{dead}*")))
    assert tracereel.shutdown(5.0).spooled == 0

    wait_until(lambda: not spool_files(tmp_path / "spool"))
