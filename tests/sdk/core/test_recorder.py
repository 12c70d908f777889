"""The recorder in real processes: configuration, kill, fork and exit."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

import tracereel
from tests.sdk.conftest import Child, spool_files, wait_for_events
from tests.support.ingest_sink import Behaviour, IngestSink
from tests.support.waiting import wait_until
from tracereel import ConfigurationError, FlushResult, config, traced_agent
from tracereel._core import recorder as _recorder
from tracereel._core import run_state
from tracereel._export.leftovers import ship_leftovers

AGENT = """
    import os, sys
    import tracereel

    @tracereel.traced_agent("a")
    def agent(number):
        return number
"""


@traced_agent("a")
def agent(number: int) -> int:
    return number


@pytest.fixture
def gone() -> Iterator[str]:
    """Return an address that refuses connections and stays reserved."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def finish(process: "object") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)  # type: ignore[attr-defined]
    return process.returncode, out, err  # type: ignore[attr-defined]


@pytest.mark.fault
def test_kill_9_loses_nothing_and_leftovers_are_shipped(sink: IngestSink, child: Child) -> None:
    """Every event that was recorded before the kill arrives, without a gap."""
    sink.behaviour = Behaviour(status=503)
    process = child(
        AGENT
        + """
    for number in range(300):
        agent(number)
    print("done", flush=True)
    while True:
        agent(-1)
    """,
        TRACEREEL_ENDPOINT=sink.url,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    settings = config.load(endpoint=sink.url)
    sink.behaviour = Behaviour()
    result = ship_leftovers(settings, timeout=60.0)
    assert result == FlushResult(len(sink.events), 0, 0)
    assert [event["emitter_seq"] for event in sink.events] == list(range(1, len(sink.events) + 1))
    assert len(sink.events) >= 600
    assert spool_files(settings.destination_dir) == []


@pytest.mark.fault
def test_the_next_process_ships_what_a_killed_one_left(sink: IngestSink, child: Child) -> None:
    sink.behaviour = Behaviour(status=503)
    first = child(
        AGENT + "    [agent(n) for n in range(50)]; os.kill(os.getpid(), 9)",
        TRACEREEL_ENDPOINT=sink.url,
    )
    assert finish(first)[0] == -signal.SIGKILL
    sink.behaviour = Behaviour()
    second = child(
        AGENT + "    agent(1); print('ready', flush=True); sys.stdin.read()",
        TRACEREEL_ENDPOINT=sink.url,
    )
    wait_for_events(sink, 102)
    assert finish(second)[0] == 0
    assert len({event["emitter_id"] for event in sink.events}) == 2


@pytest.mark.parametrize(
    "ending",
    ["pass", "sys.exit(3)", "raise ValueError('end')", "import signal; signal.raise_signal(2)"],
)
def test_exit_delivers_everything_and_leaves_no_file(
    sink: IngestSink, child: Child, tmp_path: Path, ending: str
) -> None:
    code, _, err = finish(
        child(AGENT + f"    [agent(n) for n in range(100)]; {ending}", TRACEREEL_ENDPOINT=sink.url)
    )
    expected = {"pass": 0, "sys.exit(3)": 3, "raise ValueError('end')": 1}
    assert code == expected.get(ending, -signal.SIGINT), err
    assert len(sink.events) == 200
    assert spool_files(tmp_path / "spool") == []


def test_exit_by_os_exit_leaves_the_events_in_the_spool(sink: IngestSink, child: Child) -> None:
    sink.behaviour = Behaviour(status=503)
    finish(child(AGENT + "    agent(1); os._exit(0)", TRACEREEL_ENDPOINT=sink.url))
    sink.behaviour = Behaviour()
    assert ship_leftovers(config.load(endpoint=sink.url)) == FlushResult(2, 0, 0)


def test_exit_does_not_wait_for_a_refused_connection(child: Child, gone: str) -> None:
    """A refused connection ends the wait, far below the timeout of an hour."""
    code, _, err = finish(
        child(AGENT + "    agent(1)", TRACEREEL_ENDPOINT=gone, TRACEREEL_EXIT_TIMEOUT="3600")
    )
    assert code == 0, err


def test_exit_with_a_hanging_collector_keeps_its_deadline(sink: IngestSink, child: Child) -> None:
    sink.behaviour = Behaviour(hang=True)
    code, _, err = finish(
        child(AGENT + "    agent(1)", TRACEREEL_ENDPOINT=sink.url, TRACEREEL_EXIT_TIMEOUT="0.2")
    )
    assert code == 0, err


def test_an_event_in_a_late_exit_handler_is_not_lost(sink: IngestSink, child: Child) -> None:
    """It runs after our own exit handler, so the event is spooled for a later process."""
    code, _, err = finish(
        child(
            """
    import atexit
    atexit.register(lambda: agent(2))
    """
            + AGENT
            + "    agent(1)",
            TRACEREEL_ENDPOINT=sink.url,
        )
    )
    assert code == 0, err
    assert len(sink.events) == 2
    assert ship_leftovers(config.load(endpoint=sink.url)) == FlushResult(2, 0, 0)


def test_a_program_without_traced_calls_starts_no_thread_and_no_spool(
    child: Child, tmp_path: Path
) -> None:
    code, out, err = finish(
        child(
            AGENT + "    import threading; tracereel.configure(); print(threading.active_count())"
        )
    )
    assert (code, out) == (0, "1\n"), err
    assert spool_files(tmp_path / "spool") == []


@pytest.mark.fault
def test_a_forked_child_has_its_own_emitter_and_sends_only_its_own(
    sink: IngestSink, child: Child, tmp_path: Path
) -> None:
    code, _, err = finish(
        child(
            AGENT
            + """
    @tracereel.traced_pipeline("p")
    def run():
        agent(1)
        pid = os.fork()
        agent(2)
        if pid:
            os.waitpid(pid, 0)
        return pid
    run()
    """,
            TRACEREEL_ENDPOINT=sink.url,
            TRACEREEL_EXIT_TIMEOUT="30",
        )
    )
    assert code == 0, err
    numbers: dict[str, list[int]] = {}
    for event in sink.events:
        numbers.setdefault(event["emitter_id"], []).append(event["emitter_seq"])
    assert sorted(map(len, numbers.values())) == [3, 6]
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())
    assert len({event["event_id"] for event in sink.events}) == 9
    assert len({event["trace_id"] for event in sink.events}) == 1
    assert sink.duplicates == 0
    assert spool_files(tmp_path / "spool") == []


@pytest.mark.fault
def test_forks_among_busy_threads_neither_hang_nor_lose(sink: IngestSink, child: Child) -> None:
    """Children forked while other threads write can record and exit; the parent ships the rest."""
    code, _, err = finish(
        child(
            AGENT
            + """
    import threading, warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    stop = threading.Event()
    def work():
        while not stop.is_set():
            agent(0)
    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    for number in range(10):
        pid = os.fork()
        if pid == 0:
            agent(number)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    stop.set()
    [thread.join() for thread in threads]
    """,
            TRACEREEL_ENDPOINT=sink.url,
            TRACEREEL_EXIT_TIMEOUT="30",
        )
    )
    assert code == 0, err
    ship_leftovers(config.load(endpoint=sink.url), timeout=60.0)
    emitters: dict[str, list[int]] = {}
    for event in sink.events:
        emitters.setdefault(event["emitter_id"], []).append(event["emitter_seq"])
    assert len(emitters) == 11
    assert all(found == list(range(1, len(found) + 1)) for found in emitters.values())


def test_full_spool_drops_and_counts_without_affecting_the_agent(
    registry: CollectorRegistry, gone: str
) -> None:
    tracereel.configure(endpoint=gone, registry=registry, max_spool_bytes=65_536, exit_timeout=0.0)
    assert [agent(number) for number in range(500)] == list(range(500))
    result = tracereel.flush(0.1)
    assert result.delivered == 0
    assert result.dropped > 0
    assert result.spooled + result.dropped == 1000
    dropped = registry.get_sample_value(
        "tracereel_sdk_events_dropped_total", {"reason": "spool_full"}
    )
    assert dropped == result.dropped


def test_unwritable_spool_does_not_affect_the_traced_call(
    registry: CollectorRegistry, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    tracereel.configure(
        endpoint="http://127.0.0.1:9", spool_dir=tmp_path / "file", registry=registry
    )
    assert agent(5) == 5
    assert tracereel.flush(0.1) == FlushResult(0, 2, 0)
    assert tracereel.shutdown(0.1) == FlushResult(0, 0, 2)


def test_configuring_again_flushes_the_former_destination(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    with IngestSink() as other:
        tracereel.configure(endpoint=other.url, registry=registry, exit_timeout=20.0)
        agent(1)
        tracereel.configure(endpoint=sink.url, registry=registry)
        agent(2)
        tracereel.flush(20.0)
        assert (len(other.events), len(sink.events)) == (2, 2)


def test_a_call_that_spans_two_configurations_ends_in_the_second(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    with IngestSink() as other:
        tracereel.configure(endpoint=other.url, registry=registry, exit_timeout=20.0)

        @traced_agent("long")
        def long() -> None:
            tracereel.configure(endpoint=sink.url, registry=registry)

        long()
        tracereel.flush(20.0)
        assert [event["event_type"] for event in other.events] == ["agent.execution.started"]
        assert [event["event_type"] for event in sink.events] == ["agent.execution.completed"]
        assert sink.events[0]["trace_seq"] == 1


def test_a_bad_configuration_raises_and_changes_nothing(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    tracereel.configure(endpoint=sink.url, registry=registry)
    before = _recorder.active()
    with pytest.raises(ConfigurationError):
        tracereel.configure(endpoint="nonsense")
    assert _recorder.active() is before


def test_after_shutdown_calls_are_spooled_for_a_later_process(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    tracereel.configure(endpoint=sink.url, registry=registry)
    agent(1)
    assert tracereel.shutdown(20.0) == FlushResult(2, 0, 0)
    agent(2)
    assert tracereel.shutdown(0.0) == FlushResult(2, 2, 0)
    assert ship_leftovers(config.load(endpoint=sink.url)) == FlushResult(2, 0, 0)


def test_shutdown_is_idempotent_and_ends_the_thread(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    others = set(threading.enumerate())
    tracereel.configure(endpoint=sink.url, registry=registry)
    agent(1)
    (shipper,) = (
        thread
        for thread in set(threading.enumerate()) - others
        if thread.name == "tracereel-shipper"
    )
    tracereel.shutdown(20.0)
    tracereel.shutdown(20.0)
    wait_until(lambda: not shipper.is_alive())


def test_our_own_errors_never_reach_the_program(
    sink: IngestSink, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call returns even if everything of ours fails, and swallowed errors are counted."""
    monkeypatch.delenv("TRACEREEL_RAISE_INTERNAL_ERRORS")
    tracereel.configure(endpoint=sink.url, registry=registry)
    for name in (
        "tracereel._redact.values.encode_line",
        "tracereel._telemetry.metrics.Metrics.observe",
    ):
        monkeypatch.setattr(name, lambda *_: 1 / 0)
    assert agent(4) == 4
    monkeypatch.setattr("tracereel._telemetry.spans.Spans.start", lambda *_: 1 / 0)
    assert agent(5) == 5
    counts = {
        where: registry.get_sample_value("tracereel_sdk_internal_errors_total", {"where": where})
        for where in ("spool", "metrics", "begin")
    }
    assert counts == {"spool": 2, "metrics": 2, "begin": 1}
    assert tracereel.flush(1.0).dropped == 2


def test_remembered_traces_are_bounded(registry: CollectorRegistry, gone: str) -> None:
    tracereel.configure(registry=registry, endpoint=gone)
    recorder = _recorder.active()
    assert recorder is not None
    for number in range(run_state.MAX_REMEMBERED_TRACES + 100):
        recorder.trace(f"{number}")
        kept = recorder.trace("0")
    assert (
        len(recorder._traces.known) + len(recorder._traces.older) <= run_state.MAX_REMEMBERED_TRACES
    )
    assert recorder.trace("0") is kept, "a trace that is in use is not forgotten"


def test_the_pid_in_the_lock_is_the_emitters(sink: IngestSink, registry: CollectorRegistry) -> None:
    tracereel.configure(endpoint=sink.url, registry=registry)
    agent(1)
    (lock,) = config.load(endpoint=sink.url).destination_dir.glob("*.lock")
    assert lock.read_text() == f"{os.getpid()}\n"
