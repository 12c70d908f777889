"""Context propagation between real processes: one run, one order, whatever their clocks."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import tracereel
from tests.sdk.conftest import Child
from tests.support.ingest_sink import IngestSink
from tracereel import traced_agent
from tracereel._core import remote_identity
from tracereel.propagation import (
    carry,
    current_identity,
    extract,
    inject,
    observe_clock,
    subprocess_environ,
)

Deliver = Callable[[], list[dict[str, Any]]]

SKEWED = """
    import json, os, sys, time
    skew, real = int(os.environ["TEST_SKEW_SECONDS"]) * 10**9, time.time_ns
    time.time_ns = lambda: real() + skew

    import tracereel
    from tracereel.propagation import inject, read_clock

    @tracereel.traced_agent("child")
    def work():
        return inject({})

    print(json.dumps({"onward": work(), "clock": read_clock()}))
    assert tracereel.flush(20.0).spooled == 0
"""


@pytest.fixture(autouse=True)
def _no_parent_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRACEPARENT", "TRACESTATE", "BAGGAGE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(remote_identity, "_process", "unread")


def by_hlc(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    ordered = sorted(events, key=lambda event: str(event["hlc"]))
    return [(e["agent_name"], e["event_type"].rpartition(".")[2]) for e in ordered]


CAUSAL = [
    ("parent", "started"),
    ("child", "started"),
    ("child", "completed"),
    ("parent", "completed"),
]


@pytest.mark.parametrize("skew", [-600, 0, 600])
def test_a_subprocess_joins_and_is_ordered_whatever_its_clock(
    recorded: Deliver, sink: IngestSink, child: Child, skew: int
) -> None:
    """The child's clock is ten minutes behind or ahead; its output returns its clock."""

    @traced_agent("parent")
    def parent() -> None:
        environ = subprocess_environ(
            {"TEST_SKEW_SECONDS": str(skew), "TRACEREEL_ENDPOINT": sink.url}
        )
        process = child(SKEWED, **environ)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err

        observe_clock(json.loads(out)["clock"])

    parent()
    events = recorded()
    assert by_hlc(events) == CAUSAL
    opened = {e["agent_name"]: e for e in events if e["event_type"].endswith("started")}
    for name in ("trace_id", "request_id", "otel_trace_id"):
        assert opened["child"][name] == opened["parent"][name]
    assert opened["child"]["parent_span_id"] == opened["parent"]["span_id"]
    assert opened["child"]["emitter_id"] != opened["parent"]["emitter_id"]
    if skew < 0:  # by their timestamps the child would come first
        assert opened["child"]["timestamp"] < opened["parent"]["timestamp"]


def test_a_clock_beyond_the_bound_is_not_followed(
    recorded: Deliver, sink: IngestSink, child: Child
) -> None:
    """One broken clock must not advance all others by an hour."""
    environ = {"TEST_SKEW_SECONDS": "3600", "TRACEREEL_ENDPOINT": sink.url}
    process = child(SKEWED, **environ)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err

    with extract(json.loads(out)["onward"]):
        traced_agent("parent")(lambda: None)()
    events = recorded()
    assert [name for name, _ in by_hlc(events)] == ["parent", "parent", "child", "child"]
    assert len({event["trace_id"] for event in events}) == 1


def test_a_business_trace_id_given_by_a_shell_is_adopted(sink: IngestSink, child: Child) -> None:
    process = child(
        "import tracereel; tracereel.traced_agent('a')(lambda: None)(); tracereel.flush(20.0)",
        TRACEREEL_ENDPOINT=sink.url,
        TRACEREEL_TRACE_ID="trc_abc",
        TRACEREEL_REQUEST_ID="req_1",
        TRACEREEL_SESSION_ID="ses_1",
    )
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert {e["trace_id"] for e in sink.events} == {"trc_abc"}
    assert {e["request_id"] for e in sink.events} == {"req_1"}
    assert {e["session_id"] for e in sink.events} == {"ses_1"}


def test_a_message_queue_between_two_processes(
    recorded: Deliver, sink: IngestSink, child: Child
) -> None:
    """The consumer's clock is behind; the message alone orders its events after the producer's."""
    consumer = child(
        """
        import json, sys, time
        real = time.time_ns
        time.time_ns = lambda: real() - 50 * 10**9

        import tracereel
        from tracereel.propagation import extract

        consume = tracereel.traced_agent("consumer")(lambda: None)
        for line in sys.stdin:
            headers = [(name, value.encode()) for name, value in json.loads(line)]
            with extract(headers):
                consume()
        assert tracereel.flush(20.0).spooled == 0
        """,
        TRACEREEL_ENDPOINT=sink.url,
    )

    @traced_agent("producer")
    def produce() -> str:
        headers: list[tuple[str, bytes]] = inject([])
        return json.dumps([(name, value.decode()) for name, value in headers])

    messages = [produce() for _ in range(5)]
    _, err = consumer.communicate("\n".join(messages), timeout=60)
    assert consumer.returncode == 0, err
    events = recorded()
    runs = {event["trace_id"] for event in events}
    assert len(runs) == 5
    for run in runs:
        order = by_hlc([event for event in events if event["trace_id"] == run])
        assert order.index(("producer", "started")) < order.index(("consumer", "started"))
        assert len(order) == 4


def whoami() -> tuple[int, str | None, str | None]:
    identity = current_identity()
    return os.getpid(), identity.request_id, identity.trace_id


def test_carry_into_a_process_pool(recorded: Deliver) -> None:
    @traced_agent("a")
    def submit() -> tuple[Any, Any]:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return whoami(), pool.submit(carry(whoami)).result(60)

    here, there = submit()
    assert here[0] != there[0]
    assert here[1] is not None
    assert here[1] == there[1]


def test_importing_the_context_imports_no_client_or_framework() -> None:
    code = (
        "import sys, tracereel.propagation, tracereel.integrations.asgi,"
        " tracereel.integrations.http_clients, tracereel.metrics_server;"
        "print([m for m in ('httpx', 'requests', 'starlette', 'uvicorn') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
    assert tracereel.__name__ == "tracereel"
