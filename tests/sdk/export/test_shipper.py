"""Delivery in order and without loss, however the destination behaves."""

import itertools
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

import tracereel
from tests.sdk.conftest import spool_files, wait_for_events
from tests.support.ingest_sink import Behaviour, IngestSink
from tests.support.waiting import wait_until
from tracereel import FlushResult, config, traced_agent
from tracereel._core import recorder
from tracereel._export import backoff, destinations, shipper
from tracereel._export.collector_connection import CollectorConnection
from tracereel._export.leftovers import ship_leftovers
from tracereel._export.sender import EventsAccepted, EventsRefused
from tracereel._export.spool import Spool
from tracereel._export.spool_reader import MAX_BATCH_LINES

Deliver = Callable[[], list[dict[str, Any]]]


@traced_agent("a")
def agent(number: int) -> int:
    return number


def leave(directory: Path, count: int) -> str:
    """Leave a spool as a dead process does."""
    spool = Spool(directory, max_bytes=100_000_000)
    for number in range(count):
        event = {
            "event_id": f"evt_{number}",
            "event_type": "custom.left",
            "event_version": "1.0.0",
            "timestamp": "2026-01-01T00:00:00Z",
            "trace_id": "t",
            "number": number,
        }
        assert spool.append(event, None, closes_run=False) is None
    emitter = str(spool.emitter_id)
    spool.close(settled=-1)
    return emitter


def configured(sink_url: str, **more: Any) -> config.Config:
    return config.load(endpoint=sink_url, **more)


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
def test_requests_are_ndjson_with_the_key_on_a_kept_connection(
    sink: IngestSink, registry: CollectorRegistry, compression: str
) -> None:
    tracereel.configure(
        endpoint=sink.url + "/prefix", api_key="sesame", registry=registry, compression=compression
    )
    for number in range(20):
        agent(number)
    assert tracereel.flush(20.0) == FlushResult(40, 0, 0)
    request = sink.requests[0]
    assert request.path == "/prefix/v1/events"
    assert request.headers["content-type"] == "application/x-ndjson"
    assert request.headers["x-api-key"] == "sesame"
    assert compression in {request.headers.get("content-encoding") for request in sink.requests}


def test_exit_waits_for_a_slow_answer_about_the_key_of_an_orphaned_spool(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    revoked = configured(sink.url, api_key="revoked")
    leave(revoked.destination_dir, 30)
    destinations.remember(revoked, "acme")
    # Longer than a drain waits between two checks of the shipper's state.
    sink.behaviour = Behaviour(key_state="revoked", key_state_delay=1.5)
    tracereel.configure(endpoint=sink.url, api_key="valid", registry=registry, exit_timeout=60)
    agent(1)

    recorder._at_exit()

    assert len(sink.of_type("custom.left")) == 30
    assert not spool_files(revoked.destination_dir)


def test_bytes_for_other_machines_are_compressed_as_well_as_the_installed_packages_can() -> None:
    assert CollectorConnection(configured("http://elsewhere.example")).compression == "zstd"
    assert CollectorConnection(configured("http://127.0.0.1:1")).compression == "none"


def test_a_local_collector_gets_plain_bytes(recorded: Deliver, sink: IngestSink) -> None:
    for number in range(20):
        agent(number)
    recorded()
    assert {request.headers.get("content-encoding") for request in sink.requests} == {None}


def test_many_batches_go_over_one_connection(recorded: Deliver, sink: IngestSink) -> None:
    for number in range(3):
        agent(number)
        recorded()
    assert len(sink.requests) >= 3
    assert sink.connections == 1


def test_everything_arrives_after_an_outage(registry: CollectorRegistry) -> None:
    """The agent is not affected; each event arrives once and in order."""
    with IngestSink() as first:
        port = first.port
    tracereel.configure(endpoint=f"http://127.0.0.1:{port}", registry=registry)
    assert [agent(number) for number in range(500)] == list(range(500))
    waiting = tracereel.flush(0.2)
    assert waiting == FlushResult(0, 1000, 0)
    with IngestSink(port) as back:
        assert tracereel.flush(20.0) == FlushResult(1000, 0, 0)
        assert [event["emitter_seq"] for event in back.events] == list(range(1, 1001))
    assert registry.get_sample_value("tracereel_sdk_events_total", {"outcome": "delivered"}) == 1000
    assert registry.get_sample_value("tracereel_sdk_events_total", {"outcome": "recorded"}) == 1000


@pytest.mark.parametrize(
    "trouble",
    [
        Behaviour(status=503),
        Behaviour(status=429, headers={"retry-after": "0"}),
        Behaviour(status=500),
        Behaviour(status=404),
        Behaviour(status=401),
        Behaviour(status=403, body=b'{"error": {"code": "forbidden", "message": "scope"}}'),
        Behaviour(status=302, body=b""),
        Behaviour(status=400, body=b"<html>plain HTTP sent to HTTPS port</html>"),
        Behaviour(body=b"<html>welcome to the hotel</html>"),
        Behaviour(body=b"[" * 100_000),
        Behaviour(body=b"x" * (5 * 1024 * 1024)),
        Behaviour(body=b'{"ok": true}'),
        Behaviour(drop_connection=True),
    ],
    ids=lambda value: f"{value.status}-{(value.body or b'')[:8]!r}-{value.drop_connection}",
)
def test_destination_errors_lose_nothing(
    recorded: Deliver, sink: IngestSink, trouble: Behaviour
) -> None:
    """After any invalid response, events wait and arrive later."""
    sink.behaviour = trouble
    agent(1)
    assert tracereel.flush(0.3) == FlushResult(0, 2, 0)
    sink.behaviour = Behaviour()
    assert len(recorded()) == 2


def test_events_refused_for_the_tenant_they_name_do_not_hold_up_others(
    recorded: Deliver, sink: IngestSink
) -> None:
    """A 403 about the key is retried; one that names the events is final."""
    answer = {"error": {"code": "rejected", "message": "tenant: 'b'"}, "rejected": [{"index": 0}]}
    sink.behaviour = Behaviour(status=403, body=json.dumps(answer).encode())
    agent(1)
    assert tracereel.flush(5) == FlushResult(0, 0, 2)
    sink.behaviour = Behaviour()
    agent(1)
    assert len(recorded()) == 2


def test_a_hanging_destination_does_not_hold_flush_beyond_its_deadline(
    registry: CollectorRegistry,
) -> None:
    with IngestSink() as sink:
        sink.behaviour = Behaviour(hang=True)
        tracereel.configure(endpoint=sink.url, registry=registry, exit_timeout=0.0)
        agent(1)
        assert tracereel.flush(0.2) == FlushResult(0, 2, 0)
        tracereel.shutdown(0.0)


def test_rejected_events_are_kept_aside_and_counted(
    recorded: Deliver, sink: IngestSink, registry: CollectorRegistry, tmp_path: Path
) -> None:
    sink.behaviour = Behaviour(reject=lambda event: event.get("input_summary") == "number: 3")
    for number in range(6):
        agent(number)
    assert tracereel.flush(20.0) == FlushResult(11, 0, 1)
    (kept,) = (tmp_path / "spool").rglob("*.rejected.ndjson")
    record = json.loads(kept.read_text())
    assert record["reason"] == "told to"
    assert json.loads(record["line"])["input_summary"] == "number: 3"
    assert registry.get_sample_value("tracereel_sdk_events_total", {"outcome": "rejected"}) == 1


def test_poison_is_found_by_halving_and_the_rest_arrives_in_order(
    recorded: Deliver, sink: IngestSink, tmp_path: Path
) -> None:
    """A refused body costs only the lines that caused it."""
    bad = ("number: 7", "number: 40")
    sink.behaviour = Behaviour(poison=lambda event: event.get("input_summary") in bad)
    for number in range(50):
        agent(number)
    assert tracereel.flush(20.0) == FlushResult(98, 0, 2)
    numbers = [event["emitter_seq"] for event in sink.events]
    assert numbers == sorted(numbers)
    assert len(numbers) == 98
    (kept,) = (tmp_path / "spool").rglob("*.rejected.ndjson")
    assert len(kept.read_text().splitlines()) == 2


def test_bodies_too_large_are_halved(recorded: Deliver, sink: IngestSink) -> None:
    sink.behaviour = Behaviour(max_bytes=4096)
    for number in range(30):
        agent(number)
    assert tracereel.flush(20.0) == FlushResult(60, 0, 0)


class ScriptedSender:
    """Fake destination: refuses bodies with a bad line, rejects some lines by index."""

    def __init__(self, poison: set[bytes], rejected: set[bytes]) -> None:
        self._poison, self._rejected = poison, rejected
        self.taken: list[bytes] = []

    def post(self, lines: list[bytes]) -> EventsAccepted | EventsRefused:
        if self._poison & set(lines):
            return EventsRefused("poison")
        self.taken += [line for line in lines if line not in self._rejected]
        return EventsAccepted(
            tuple((at, "no") for at, line in enumerate(lines) if line in self._rejected)
        )


@given(
    count=st.integers(1, 60),
    poison=st.sets(st.integers(0, 59)),
    rejected=st.sets(st.integers(0, 59)),
)
def test_settling_accounts_for_every_line_once_and_in_order(
    count: int, poison: set[int], rejected: set[int]
) -> None:
    lines = [b"%d\n" % number for number in range(count)]
    bad = {b"%d\n" % number for number in poison}
    named = {b"%d\n" % number for number in rejected}
    sender = ScriptedSender(bad, named)
    settled = list(shipper.settle(sender, lines))  # type: ignore[arg-type]
    assert [line for part in settled for line in part.lines] == lines
    refused = {line for part in settled for line, _ in part.refused}
    assert refused == (bad | named) & set(lines)
    assert sender.taken == [line for line in lines if line not in refused]


def test_a_later_process_ships_what_a_dead_one_left(
    sink: IngestSink, registry: CollectorRegistry, tmp_path: Path
) -> None:
    left = leave(configured(sink.url).destination_dir, 1500)
    tracereel.configure(endpoint=sink.url, registry=registry)
    agent(1)
    wait_for_events(sink, 1502)
    adopted = [event["number"] for event in sink.events if event["emitter_id"] == left]
    assert adopted == list(range(1500))
    wait_until(lambda: not any(left in name for name in spool_files(tmp_path / "spool")))
    assert tracereel.flush(20.0) == FlushResult(2, 0, 0), "what others left is not ours to count"


def test_events_for_one_destination_never_go_to_another(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    other = configured(sink.url, api_key="other").destination_dir
    leave(other, 3)
    tracereel.configure(endpoint=sink.url, registry=registry)
    agent(1)
    tracereel.shutdown(20.0)
    assert {event["event_type"] for event in sink.events} == {
        "agent.execution.started",
        "agent.execution.completed",
    }
    assert any(other.iterdir())
    assert ship_leftovers(configured(sink.url)) == FlushResult(0, 0, 0)


def test_leftovers_are_shipped_with_progress(sink: IngestSink) -> None:
    settings = configured(sink.url)
    one = MAX_BATCH_LINES
    leave(settings.destination_dir, one + 200)
    leave(settings.destination_dir, 5)
    seen: list[FlushResult] = []
    assert ship_leftovers(settings, progress=seen.append) == FlushResult(one + 205, 0, 0)
    assert seen == [
        FlushResult(one, 205, 0),
        FlushResult(one + 200, 5, 0),
        FlushResult(one + 205, 0, 0),
    ]
    assert spool_files(settings.destination_dir) == []


def test_leftovers_stay_when_time_is_up() -> None:
    with IngestSink() as gone:
        settings = configured(gone.url)
    leave(settings.destination_dir, 3)
    assert ship_leftovers(settings, timeout=0.2) == FlushResult(0, 3, 0)
    with IngestSink(gone.port):
        assert ship_leftovers(settings) == FlushResult(3, 0, 0)


def test_a_resend_after_a_lost_offset_is_dropped_by_the_collector(sink: IngestSink) -> None:
    settings = configured(sink.url)
    emitter = leave(settings.destination_dir, 10)
    outbox = next(shipper.dead_emitters(settings.destination_dir))
    batch = outbox.read()
    assert batch is not None
    sender = shipper.Sender(settings)
    list(shipper.settle(sender, batch.lines))
    sender.close()
    outbox.release()
    assert ship_leftovers(settings) == FlushResult(10, 0, 0)
    assert [event["emitter_seq"] for event in sink.events] == list(range(1, 11))
    assert sink.duplicates == 10
    assert {event["emitter_id"] for event in sink.events} == {emitter}


def test_backoff_grows_to_its_ceiling_and_honours_the_destination() -> None:
    delays = [backoff.backoff(failures, None) for failures in range(1, 40)]
    assert all(0.05 <= delay <= backoff.MAX_BACKOFF for delay in delays)
    assert min(delays[-10:]) >= backoff.MAX_BACKOFF / 2
    assert backoff.backoff(1, 12.0) == 12.0


def test_delivery_errors_are_logged_once(
    recorded: Deliver, sink: IngestSink, caplog: pytest.LogCaptureFixture
) -> None:
    sink.behaviour = Behaviour(status=403)
    with caplog.at_level(logging.WARNING, "tracereel"):
        agent(1)
        wait_until(lambda: len(sink.requests) >= 4)
    sink.behaviour = Behaviour()
    recorded()
    warnings = [record for record in caplog.records if "delivery fails" in record.getMessage()]
    assert len(warnings) == 1


def test_shipper_thread_survives_internal_errors(
    recorded: Deliver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = shipper.settle
    calls: list[int] = []

    def broken(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise KeyError("ours")
        return real(*args)

    monkeypatch.setattr(shipper, "settle", broken)
    agent(1)
    assert len(recorded()) == 2
    assert "internal error in the shipper" in caplog.text


def test_shipper_requests_are_not_traced(recorded: Deliver, sink: IngestSink) -> None:
    """Instrumentations of HTTP clients are suppressed."""
    from opentelemetry import context

    seen: list[object] = []
    real = shipper.Sender.post

    def spy(self: shipper.Sender, lines: list[bytes]) -> Any:
        seen.append(context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY))
        return real(self, lines)

    shipper.Sender.post = spy  # type: ignore[method-assign]
    try:
        agent(1)
        recorded()
    finally:
        shipper.Sender.post = real  # type: ignore[method-assign]
    assert set(seen) == {True}


ENDLESS = 1e6
"""Seconds that no test waits for."""


def test_a_lone_event_is_sent_at_once_and_those_after_it_share_a_request(
    sink: IngestSink, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = {"linger": ENDLESS, "scan_interval": ENDLESS}
    monkeypatch.setattr(shipper.Shipper.__init__, "__kwdefaults__", defaults)
    tracereel.configure(endpoint=sink.url, registry=registry)
    agent(0)
    wait_until(lambda: sink.events, message="the first event waits for others")
    for number in range(50):
        agent(number)
    assert len(sink.requests) == 1
    assert tracereel.flush(20.0) == FlushResult(102, 0, 0)
    assert len(sink.requests) == 2


def test_requests_are_farther_apart_while_events_come_fast(
    sink: IngestSink, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipper, "BUSY_BYTES_PER_SECOND", 0)
    monkeypatch.setattr(shipper, "BUSY_LINGER", ENDLESS)
    tracereel.configure(endpoint=sink.url, registry=registry)
    calls = itertools.count(1)

    def is_busy() -> bool:
        agent(next(calls))
        return len(sink.requests) == 2

    wait_until(is_busy, message="there is no rate before the second request")
    for _ in range(50):
        agent(next(calls))
    assert len(sink.requests) == 2
    assert tracereel.flush(20.0) == FlushResult(2 * (next(calls) - 1), 0, 0)
    assert len(sink.requests) == 3
