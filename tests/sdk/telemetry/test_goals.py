"""Service-level metrics: waiting events, delivery delay, complete runs."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

import tracereel
from tests.sdk.export.test_shipper import agent, configured
from tests.support.ingest_sink import IngestSink
from tests.support.waiting import wait_until
from tracereel import FlushResult, record_decision, traced_agent, traced_pipeline, traced_tool
from tracereel._export.spool import Spool
from tracereel._export.trace_state import TraceState
from tracereel._telemetry.delivery_slo import SAMPLES, look_at, observe_many

SECOND = 1_000_000_000


def line(moment_ns: int, *, closes: bool = False, **fields: str) -> bytes:
    ending = ',"trace_event_count":2' if closes else ""
    body = "".join(f'"{key}":"{value}",' for key, value in fields.items())
    return f'{{{body}"emitter_seq":1,"hlc":"{moment_ns:016x}","trace_seq":2{ending}}}\n'.encode()


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"tracereel_sdk_{name}", labels)


@given(st.integers(0, 200))
def test_delivery_delays_are_sampled(total: int) -> None:
    answered = look_at([line(number * SECOND) for number in range(total)], now_ns=500 * SECOND)
    assert sum(times for _, times in answered.delays) == total
    assert len(answered.delays) <= SAMPLES
    assert all(300.0 < seconds <= 500.0 for seconds, _ in answered.delays)


def test_the_clock_and_the_end_of_a_run_are_read_from_the_end_of_a_line() -> None:
    """A payload may contain the same field names."""
    odd = line(7 * SECOND, hlc="ffff", trace_event_count="9")
    answered = look_at([odd, line(9 * SECOND, closes=True)], now_ns=8 * SECOND)
    assert answered.delays == ((1.0, 1), (0.0, 1)), "a clock that is ahead is not negative time"
    assert answered.runs_closed == 1


@pytest.mark.parametrize("damaged", [b"", b"\n", b"{}\n", b'{"hlc":"zz"}\n'])
def test_a_line_without_a_clock_is_left_out(damaged: bytes) -> None:
    assert look_at([damaged]).delays == ()


def test_observe_many_counts_a_value_n_times() -> None:
    registry = CollectorRegistry()
    histogram = Histogram("h", "", buckets=(1.0, 2.0), registry=registry)
    observe_many(histogram, 0.5, 3)
    observe_many(histogram, 1.5, 2)
    observe_many(histogram, 9.0, 1)
    assert registry.get_sample_value("h_bucket", {"le": "1.0"}) == 3
    assert registry.get_sample_value("h_bucket", {"le": "2.0"}) == 5
    assert registry.get_sample_value("h_count") == 6
    assert registry.get_sample_value("h_sum") == 13.5


def test_spooled_events_gauge_counts_while_the_collector_is_unreachable(
    registry: CollectorRegistry,
) -> None:
    with IngestSink() as gone:
        port = gone.port
    tracereel.configure(endpoint=f"http://127.0.0.1:{port}", registry=registry)
    assert value(registry, "spooled_events") == 0
    for number in range(10):
        agent(number)
    assert value(registry, "spooled_events") == 20
    assert (value(registry, "spooled_bytes") or 0) > 20 * 100
    assert value(registry, "runs_total", stage="opened") == 10
    assert value(registry, "runs_total", stage="closed") == 0
    assert value(registry, "delivery_seconds_count") == 0
    with IngestSink(port):
        assert tracereel.flush(20.0) == FlushResult(20, 0, 0)
    assert value(registry, "spooled_events") == 0
    assert value(registry, "spooled_bytes") == 0
    assert value(registry, "runs_total", stage="closed") == 10
    assert value(registry, "delivery_seconds_count") == 20
    assert (value(registry, "delivery_seconds_sum") or 0) > 0


def test_a_run_is_opened_and_closed_once_however_many_calls_it_has(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    tracereel.configure(endpoint=sink.url, registry=registry)

    @traced_agent("inner")
    def inner() -> None:
        record_decision("d", reasoning="", confidence=1.0)

    @traced_pipeline("p")
    def outer() -> None:
        inner()
        inner()

    for _ in range(3):
        outer()
    tracereel.flush(20.0)
    assert value(registry, "runs_total", stage="opened") == 3
    assert value(registry, "runs_total", stage="closed") == 3


def test_only_runs_that_do_not_fail_are_completed_successfully(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    """The seed's reading of a completed trace; `closed` counts all that ended."""
    tracereel.configure(endpoint=sink.url, registry=registry)

    @traced_agent("inner")
    def inner() -> None:
        raise ValueError("recovered by its pipeline")

    @traced_pipeline("recovers")
    def recovers() -> None:
        with pytest.raises(ValueError, match="recovered"):
            inner()

    @traced_agent("stopped")
    def stopped() -> None:
        raise KeyboardInterrupt

    agent(1)
    recovers()
    for failing, error in (
        (inner, ValueError),
        (traced_pipeline("fails")(inner), ValueError),
        (traced_tool("fails")(inner.__wrapped__), ValueError),
        (stopped, KeyboardInterrupt),
    ):
        with pytest.raises(error):
            failing()
    traced_tool("works")(lambda: None)()
    tracereel.flush(20.0)
    assert value(registry, "runs_total", stage="opened") == 7
    assert value(registry, "runs_total", stage="closed") == 7
    assert value(registry, "runs_total", stage="succeeded") == 3


def test_an_unreadable_last_event_is_no_success() -> None:
    damaged = line(SECOND, closes=True).replace(b"{", b"")
    assert (look_at([damaged]).runs_closed, look_at([damaged]).runs_succeeded) == (1, 0)


def test_runs_of_a_dead_process_are_closed_by_who_ships_them(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    spool = Spool(configured(sink.url).destination_dir, max_bytes=1 << 20)

    event = {
        "event_id": "evt_1",
        "event_type": "custom.left",
        "event_version": "1.0.0",
        "timestamp": "2026-01-01T00:00:00Z",
        "trace_id": "t",
    }
    spool.append(event, TraceState("t", "req"), closes_run=True)
    spool.close(settled=-1)
    tracereel.configure(endpoint=sink.url, registry=registry)
    agent(1)
    wait_until(lambda: value(registry, "runs_total", stage="closed") == 2)
    assert value(registry, "runs_total", stage="opened") == 1
    assert value(registry, "delivery_seconds_count") == 2, "how late it died is not our delay"


def test_spooled_events_gauge_follows_the_current_configuration(
    registry: CollectorRegistry, tmp_path: Path
) -> None:
    tracereel.configure(
        endpoint="http://127.0.0.1:9", registry=registry, spool_dir=tmp_path / "one"
    )
    agent(1)
    tracereel.configure(
        endpoint="http://127.0.0.1:9", registry=registry, spool_dir=tmp_path / "two"
    )
    assert value(registry, "spooled_events") == 0
    assert value(registry, "runs_total", stage="opened") == 1
