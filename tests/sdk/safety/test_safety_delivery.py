"""Delivery problems never block the caller, and every count is exact."""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import tracereel
from tests.sdk.conftest import Child, spool_files
from tests.sdk.safety.programs import EITHER, assert_everything_once, end_of
from tests.support.ingest_sink import Behaviour, IngestSink
from tests.support.waiting import wait_until
from tracereel import FlushResult, config, traced_agent
from tracereel._export import shipper
from tracereel._export.leftovers import ship_leftovers

Deliver = Callable[[], list[dict[str, Any]]]


@traced_agent("a")
def agent(number: int) -> int:
    return number


def shippers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tracereel-shipper"]


@pytest.mark.parametrize("hang", [False, True], ids=["up", "hanging"])
def test_the_network_is_never_touched_by_the_threads_of_the_program(
    sink: IngestSink, child: Child, hang: bool
) -> None:
    """Name lookups, connections and network files belong to the delivery thread only."""
    sink.behaviour = Behaviour(hang=hang)
    ended = end_of(
        child(
            """
            import json, sys, threading
            touched = set()
            def hear(event, args):
                if event.startswith(("socket.", "http.", "urllib.", "ssl.")):
                    touched.add(threading.current_thread().name)
            sys.addaudithook(hear)
            import tracereel

            @tracereel.traced_agent("a")
            def agent(number):
                return number

            def work():
                for number in range(50):
                    agent(number)

            threads = [threading.Thread(target=work) for _ in range(4)]
            [thread.start() for thread in threads]
            work()
            [thread.join() for thread in threads]
            tracereel.flush(0.5)
            tracereel.shutdown(0.5)
            print(json.dumps(sorted(touched)))
            """,
            TRACEREEL_ENDPOINT=sink.url,
            TRACEREEL_EXIT_TIMEOUT="0.2",
        )
    )
    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out) == ["tracereel-shipper"]


def test_a_slow_collector_delays_the_delivery_and_nothing_else(
    recorded: Deliver, sink: IngestSink
) -> None:
    """While a response is pending, calls continue and events wait on disk; all arrive in order."""
    answer = threading.Event()
    sink.behaviour = Behaviour(reject=lambda _event: not answer.wait(20.0))
    assert [agent(number) for number in range(100)] == list(range(100))
    assert tracereel.flush(0.1) == FlushResult(0, 200, 0)
    assert [agent(number) for number in range(100)] == list(range(100))
    answer.set()
    assert [event["emitter_seq"] for event in recorded()] == list(range(1, 401))


@pytest.mark.parametrize("threads", [1, 8])
def test_an_overflow_is_counted_to_the_event(
    sink: IngestSink, registry: CollectorRegistry, threads: int
) -> None:
    """Recorded plus dropped is every event, and exactly the events not dropped arrive, in order."""
    sink.behaviour = Behaviour(status=503)
    tracereel.configure(endpoint=sink.url, registry=registry, max_spool_bytes=65_536)

    def work() -> None:
        for number in range(400 // threads):
            assert agent(number) == number

    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    full = tracereel.flush(0.0)
    assert full.delivered == 0
    assert full.spooled + full.dropped == 800
    assert full.dropped > 0
    sink.behaviour = Behaviour()
    assert tracereel.flush(20.0) == FlushResult(full.spooled, 0, full.dropped)
    assert_everything_once(sink, emitters=1, events=full.spooled)

    def count(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"tracereel_sdk_{name}_total", labels)

    assert count("events_dropped", reason="spool_full") == full.dropped
    assert count("events", outcome="dropped") == full.dropped
    assert count("events", outcome="recorded") == full.spooled
    assert count("events", outcome="delivered") == full.spooled


@pytest.fixture
def deadly(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Kill the delivery thread at its next send, with an exception that it cannot handle."""
    real = shipper.settle

    def kill() -> None:
        (thread,) = shippers()

        def die(*_: object) -> Any:
            monkeypatch.setattr(shipper, "settle", real)
            raise SystemExit

        monkeypatch.setattr(shipper, "settle", die)
        agent(0)
        wait_until(lambda: not thread.is_alive())

    return kill


def test_a_killed_delivering_thread_is_replaced_by_the_next_event(
    recorded: Deliver, sink: IngestSink, deadly: Callable[[], None]
) -> None:
    agent(1)
    recorded()
    deadly()
    assert shippers() == []
    agent(2)
    wait_until(lambda: len(sink.events) == 6)
    assert_everything_once(sink, emitters=1, events=6)


def test_a_killed_delivering_thread_is_replaced_by_a_flush(
    recorded: Deliver, sink: IngestSink, deadly: Callable[[], None]
) -> None:
    agent(1)
    recorded()
    deadly()
    assert tracereel.flush(20.0) == FlushResult(4, 0, 0)
    assert_everything_once(sink, emitters=1, events=4)


def test_a_killed_delivering_thread_does_not_cost_the_exit_its_events(
    sink: IngestSink, child: Child
) -> None:
    ended = end_of(
        child(
            EITHER
            + """
    import threading
    from tracereel._export import shipper as _shipper
    dead = []
    def die(*_):
        _shipper.settle = settle
        dead.append(threading.current_thread())
        raise SystemExit
    settle, _shipper.settle = _shipper.settle, die
    agent(1)
    while not dead or dead[0].is_alive():
        pass
    """,
            TRACEREEL_ENDPOINT=sink.url,
            TRACEREEL_EXIT_TIMEOUT="30",
        )
    )
    assert (ended.code, ended.err) == (0, "")
    assert_everything_once(sink, emitters=1, events=2)


def test_a_process_that_may_start_no_more_threads_records_all_the_same(
    sink: IngestSink, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events are on disk, none is counted as dropped, and the next one retries."""
    tracereel.configure(endpoint=sink.url, registry=registry)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limits:
        limits.setattr(threading.Thread, "start", refuse)
        assert agent(1) == 1
        assert tracereel.flush(0.0) == FlushResult(0, 2, 0)
    assert agent(2) == 2
    assert tracereel.flush(20.0) == FlushResult(4, 0, 0)


def test_a_process_that_may_start_no_more_threads_leaves_its_events_to_another(
    sink: IngestSink, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracereel.configure(endpoint=sink.url, registry=registry)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limits:
        limits.setattr(threading.Thread, "start", refuse)
        agent(1)
        assert tracereel.shutdown(20.0) == FlushResult(0, 2, 0)
    settings = config.load(endpoint=sink.url)
    assert ship_leftovers(settings) == FlushResult(2, 0, 0)
    assert spool_files(settings.destination_dir) == []
