"""Start, stop and kill: no data loss, no leftovers, one-line errors."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.support import preloaded
from tests.support.collector import CollectorProcess, http
from tests.support.conservation import conserved
from tests.support.contract import example
from tests.support.sse import EventStream
from tests.support.waiting import wait_until

EVENT = example("agent.execution.started")


def event(name, trace_id):
    return {**EVENT, "event_id": name, "trace_id": trace_id}


def children_of(collector):
    return psutil.Process(collector.process.pid).children(recursive=True)


def gone(processes):
    return all(not each.is_running() or each.status() == psutil.STATUS_ZOMBIE for each in processes)


def ids(collector, trace_id):
    answer = collector.replay(trace_id)
    assert answer.status == 200, answer.body
    return [entry["details"]["event_id"] for entry in answer.json()["timeline"]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_everything_in_order_and_leaves_no_process(new_collector, number):
    collector = new_collector(preloaded=False).start()
    later = {**event("b", "t"), "timestamp": "2099-01-01T00:00:00Z"}
    assert collector.post_events([event("a", "t"), later]).status == 200
    family = children_of(collector)
    port = urlsplit(collector.url).port

    with EventStream(f"{collector.url}/v1/replay/t?stream=1") as played:
        wait_until(lambda: played.messages)
        assert collector.stop(number) == 0
        wait_until(lambda: played.ended)

    assert [message.name for message in played.messages] == ["step", "cut"]
    assert gone(family)
    assert collector.output[-1] == "stopped"
    assert "Traceback" not in "\n".join(collector.output)
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))
    assert ids(new_collector().start(), "t") == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "is_forked"),
    [
        ("TRACEREEL_WORKERS", True),
        ("TRACEREEL_CRASH_AT", False),
        ("LD_PRELOAD", False),
        ("HTTPS_PROXY", False),
    ],
)
def test_a_collector_is_forked_unless_imports_read_its_environment(name, is_forked):
    assert preloaded.can_start({**os.environ, name: "2"}) == is_forked


def test_events_acknowledged_just_before_a_stop_are_stored(new_collector):
    collector = new_collector().start()
    for number in range(20):
        assert collector.post_events([event(str(number), "t")], wait=False).status == 200
    collector.stop()

    again = new_collector().start()

    wait_until(lambda: again.replay("t").status == 200 and len(ids(again, "t")) == 20)


def test_a_second_serve_on_the_same_directory_names_the_holder_and_exits_2(collector):
    second = subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "serve", "--port", "0", "--grpc-port", "off"),
            *("--data-dir", str(collector.data_dir)),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert second.returncode == 2
    (line,) = second.stderr.strip().splitlines()
    assert str(collector.process.pid) in line
    assert collector.post_events([event("still-there", "t")]).status == 200


def test_a_taken_port_is_one_line_and_exit_2(collector, new_collector):
    port = urlsplit(collector.url).port

    second = new_collector(port=port).start(wait=False)

    assert second.process.wait(60) == 2
    wait_until(lambda: any(f"cannot listen on 127.0.0.1:{port}" in each for each in second.output))


def test_a_public_address_without_keys_is_refused(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "serve", "--host", "0.0.0.0"),
            *("--data-dir", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "refusing to listen on 0.0.0.0 without API keys" in done.stderr


def refuses_connections(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_second_signal_stops_at_once_and_prints_no_traceback(new_collector):
    collector = new_collector(arguments=("--workers", "1", "--demo")).start()
    wait_until(lambda: "recording to" in "\n".join(collector.output))
    family, port = children_of(collector), urlsplit(collector.url).port
    with socket.create_connection(("127.0.0.1", port)) as slow:
        # A request that does not end holds up an orderly stop.
        slow.sendall(b"POST /v1/events HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{")
        # As a terminal does, to every process.
        for each in (collector.process, *family):
            each.send_signal(signal.SIGINT)
        wait_until(lambda: refuses_connections(port))
        for each in (collector.process, *family):
            if each is collector.process or each.is_running():
                each.send_signal(signal.SIGINT)
        assert collector.process.wait(timeout=60) == 0

    wait_until(lambda: gone(family))
    wait_until(lambda: collector.output[-1] == "stopped")
    assert "Traceback" not in "\n".join(collector.output)


SIGNAL_WHILE_A_THREAD_STARTS = """
import os, signal, sys, threading

def trace(frame, event, arg):
    if frame.f_code is threading.Thread.start.__code__ and frame.f_locals["self"].name == "stopping":
        sys.settrace(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.settrace(trace)
"""


def test_a_second_signal_while_the_first_is_handled_prints_no_traceback(new_collector, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(SIGNAL_WHILE_A_THREAD_STARTS)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    collector = new_collector(arguments=("--workers", "1"), environ={"PYTHONPATH": path}).start()

    assert collector.stop(signal.SIGINT) == 0
    assert "Traceback" not in "\n".join(collector.output)


@pytest.mark.parametrize("moment", ["at once", "while the store starts"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_stops_in_order_too(new_collector, number, moment):
    collector = new_collector(fresh=True).start(wait=False)
    wait_until(lambda: "starting the store …" in collector.output)
    if moment != "at once":
        wait_until(lambda: children_of(collector))
    family = children_of(collector)

    assert collector.stop(number) == 0

    assert gone(family)
    wait_until(lambda: collector.output[-1] == "stopped")
    assert "Traceback" not in "\n".join(collector.output)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_engine_alone_stops_in_order(tmp_path, number):
    engine = subprocess.Popen(
        [sys.executable, "-m", "tracereel", "engine", "--data-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with engine.stdout as lines:
        assert "ClickHouse's HTTP interface" in lines.readline()
        family = psutil.Process(engine.pid).children(recursive=True)
        engine.send_signal(number)
        assert lines.readline() == "stopped\n"
    assert engine.wait(30) == 0
    assert gone(family)


def test_unusable_data_directory_is_one_error_line(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "queue").touch()
    for folder in ("file", "data"):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tracereel", "serve", "--port", "0", "--grpc-port", "off"),
                *("--data-dir", str(tmp_path / folder)),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

        assert done.returncode == 2
        (line,) = done.stderr.strip().splitlines()
        assert "cannot use" in line


@pytest.mark.fault
def test_wait_stored_also_waits_for_a_resend(new_collector):
    """The response to a resend waits for the original."""
    collector = new_collector().start()
    (engine,) = collector.engines()
    engine.suspend()
    assert collector.post_events([event("a", "t")], wait=False).status == 200
    threading.Timer(1.0, engine.resume).start()

    assert collector.post_events([event("a", "t")]).json()["duplicates"] == 1

    assert ids(collector, "t") == ["a"]


@pytest.mark.fault
def test_ingest_continues_while_the_store_hangs(new_collector):
    collector = new_collector().start()
    (engine,) = collector.engines()
    asking = [threading.Thread(target=collector.replay, args=("t",)) for _ in range(12)]
    engine.suspend()
    try:
        for thread in asking:
            thread.start()
        large = [event(f"large-{n}", "t") | {"text": "x" * 10_000} for n in range(100)]
        assert collector.post_events(large, wait=False).status == 200
        assert http("GET", f"{collector.url}/metrics").status == 200
        readiness = http("GET", f"{collector.url}/readyz")
        assert (readiness.status, readiness.json()["store"]["answers"]) == (200, False)
    finally:
        engine.resume()
    for thread in asking:
        thread.join(60)


@pytest.mark.fault
def test_a_killed_engine_is_started_again_and_ingest_does_not_notice(new_collector):
    collector = new_collector().start()
    assert collector.post_events([event("before", "t")]).status == 200
    (engine,) = collector.engines()

    os.kill(engine.pid, signal.SIGKILL)
    answers = [
        collector.post_events([event(f"during-{n}", "t")], wait=False).status for n in range(10)
    ]

    assert answers == [200] * 10
    assert collector.post_events([event("after", "t")]).status == 200
    assert sorted(ids(collector, "t")) == sorted(
        ["before", "after", *(f"during-{n}" for n in range(10))]
    )
    assert collector.metric("tracereel_engine_restarts_total") == 1


@pytest.mark.fault
def test_children_of_a_killed_collector_stop_by_themselves_and_free_everything(new_collector):
    collector = new_collector(arguments=("--demo",)).start()
    wait_until(lambda: any("tracereel replay" in line for line in collector.output), timeout=30)
    family = children_of(collector)
    assert len(family) == 2

    collector.kill()

    wait_until(lambda: gone(family), timeout=15, message="children outlive their parent")
    again = new_collector().start()
    assert again.post_events([event("new", "t")]).status == 200


def test_the_demo_records_into_a_collector_in_a_relative_directory(tmp_path, monkeypatch):
    """The same as `make run`."""
    monkeypatch.chdir(tmp_path)
    collector = CollectorProcess(Path("data"), arguments=("--demo",), fresh=True).start()
    try:
        line = wait_until(
            lambda: next((each for each in collector.output if "  try: " in each), None)
        )
        trace_id = re.search(r"[0-9a-f]{32}", line).group()
        wait_until(lambda: collector.replay(trace_id).status == 200)
    finally:
        assert collector.stop(signal.SIGINT) == 0
    assert "Traceback" not in "\n".join(collector.output)


def test_readiness_reports_queue_and_store(collector):
    answer = http("GET", f"{collector.url}/readyz")

    assert answer.status == 200
    body = answer.json()
    assert body["status"] == "ready"
    assert body["queue"]["accepts"] is True
    assert body["store"]["answers"] is True
    assert http("GET", f"{collector.url}/readyz/query").status == 200
    assert http("GET", f"{collector.url}/healthz").json()["status"] == "ok"


def test_the_conservation_counters_balance(new_collector):
    collector = new_collector().start()
    collector.post_events([event(str(n), "t") for n in range(5)] + [{"bad": 1}])
    collector.post_events([event(str(n), "t") for n in range(5)] + [{"bad": 1}])

    assert conserved(collector) == {
        "received": 12,
        "rejected": 2,
        "duplicate": 5,
        "appended": 10,
        "stored": 5,
        "quarantined": 0,
        "retried": 0,
        "relayed": 0,
        "from_peers": 0,
        "dropped": 0,
    }
    rejected = collector.metric(
        "tracereel_records_rejected_total", kind="events", reason="bad_field"
    )
    assert rejected == 2


def test_without_a_store_events_are_still_taken(new_collector, tmp_path):
    """An unreachable ClickHouse server loses no event: ingest continues, readiness reports it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    collector = new_collector(
        arguments=("--store", f"clickhouse://u:p@127.0.0.1:{port}/db")
    ).start()

    assert collector.post_events([event("a", "t")], wait=False).status == 200

    assert http("GET", f"{collector.url}/readyz").status == 200
    assert http("GET", f"{collector.url}/readyz/query").status == 503
    answer = collector.replay("t")
    assert answer.status == 503
    assert json.loads(answer.body)["error"]["code"] == "store_unavailable"
    conserved(collector, pending=1)
    waited = http(
        "POST",
        f"{collector.url}/v1/events?wait=stored&timeout=0.2",
        json.dumps(event("b", "t")).encode(),
        {"Content-Type": "application/json"},
    )
    assert (waited.status, waited.json()["status"], waited.json()["accepted"]) == (202, "queued", 1)
    conserved(collector, pending=2)
