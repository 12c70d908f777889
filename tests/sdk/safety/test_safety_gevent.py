"""Greenlets instead of threads: no deadlock, no data loss, no mixed contexts."""

import ssl
from pathlib import Path

import pytest
import trustme

from tests.sdk.conftest import Child
from tests.sdk.safety.programs import assert_everything_once, end_of
from tests.support.ingest_sink import Behaviour, IngestSink
from tests.support.otlp_sink import OtlpSink
from tracereel import FlushResult, config
from tracereel._export.leftovers import ship_leftovers

pytest.importorskip("gevent")

EARLY = """
    from gevent import monkey
    monkey.patch_all()
    import tracereel
"""
LATE = """
    import tracereel
    from gevent import monkey
    monkey.patch_all()
"""
WORK = """
    import random, sys, threading, time
    import gevent

    @tracereel.traced_tool("t")
    def tool(number):
        time.sleep(random.random() / 100)
        return number

    @tracereel.traced_agent("a")
    def agent(number):
        tracereel.current_execution().set(confidence=number / 100)
        time.sleep(random.random() / 100)
        return tool(number)

    @tracereel.traced_pipeline("p")
    def pipeline(number):
        me = tracereel.current_execution()
        inside = gevent.spawn(tracereel.carry(agent), number)
        own = agent(number)
        assert inside.get() == own == number
        assert tracereel.current_execution() is me
        return number
"""


@pytest.mark.parametrize("patched", [EARLY, LATE], ids=["patched first", "patched after"])
def test_greenlets_record_their_own_and_everything_is_delivered(
    sink: IngestSink, child: Child, patched: str
) -> None:
    ended = end_of(
        child(
            patched
            + WORK
            + """
    jobs = [gevent.spawn(pipeline, number) for number in range(50)]
    threads = [threading.Thread(target=pipeline, args=(number,)) for number in range(50, 60)]
    [thread.start() for thread in threads]
    gevent.joinall(jobs, raise_error=True)
    [thread.join() for thread in threads]
    pool = gevent.get_hub().threadpool
    assert [job.get() for job in [pool.spawn(pipeline, n) for n in range(60, 70)]]
    """,
            TRACEREEL_ENDPOINT=sink.url,
            TRACEREEL_EXIT_TIMEOUT="30",
        )
    )
    assert (ended.code, ended.err) == (0, "")
    assert_everything_once(sink, emitters=1, events=70 * (2 + 2 * 3))
    traces: dict[str, list[dict[str, object]]] = {}
    for event in sink.events:
        traces.setdefault(event["trace_id"], []).append(event)
    assert len(traces) == 70
    for events in traces.values():
        assert [event["trace_seq"] for event in events] == list(range(1, 9))
        ends = [e for e in events if e["event_type"] == "agent.execution.completed"]
        assert len({e["confidence"] for e in ends}) == 1
        (pipeline,) = [e for e in events if e["event_type"] == "agent.pipeline.completed"]
        assert pipeline["agents_executed"] == 2


def test_a_hanging_collector_holds_neither_the_greenlets_nor_the_exit(
    sink: IngestSink, child: Child
) -> None:
    sink.behaviour = Behaviour(hang=True)
    ended = end_of(
        child(
            EARLY
            + WORK
            + """
    jobs = [gevent.spawn(agent, number) for number in range(50)]
    gevent.joinall(jobs, raise_error=True)
    print(sum(job.get() for job in jobs), tracereel.flush(0.1))
    """,
            TRACEREEL_ENDPOINT=sink.url,
            TRACEREEL_EXIT_TIMEOUT="0.2",
        )
    )
    expected = "1225 FlushResult(delivered=0, spooled=150, dropped=0, held=0)\n"
    assert (ended.code, ended.out, ended.err) == (0, expected, "")
    sink.behaviour = Behaviour()
    assert ship_leftovers(config.load(endpoint=sink.url)) == FlushResult(150, 0, 0)


def test_a_killed_greenlet_is_recorded_and_forks_have_their_own_emitter(
    sink: IngestSink, child: Child
) -> None:
    """`GreenletExit` cancels a call as it would end the bare one; a fork has its own hub and spool."""
    ended = end_of(
        child(
            EARLY
            + WORK
            + """
    import os

    @tracereel.traced_agent("slow")
    def slow():
        time.sleep(3600)

    job = gevent.spawn(slow)
    gevent.sleep(0)
    job.kill()
    assert isinstance(job.value, gevent.GreenletExit)
    pid = os.fork()
    agent(1)
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
    """,
            TRACEREEL_ENDPOINT=sink.url,
            TRACEREEL_EXIT_TIMEOUT="30",
        )
    )
    assert (ended.code, ended.err) == (0, "")
    assert_everything_once(sink, emitters=2, events=2 + 2 * 3)
    ends = [event["event_type"] for event in sink.events if event.get("agent_name") == "slow"]
    assert ends == ["agent.execution.started", "agent.execution.cancelled"]


@pytest.mark.parametrize("patched", [EARLY, LATE], ids=["patched first", "patched after"])
def test_greenlets_are_delivered_over_tls(child: Child, tmp_path: Path, patched: str) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with IngestSink(tls=tls) as sink:
        ended = end_of(
            child(
                patched
                + WORK
                + """
    gevent.joinall([gevent.spawn(pipeline, number) for number in range(20)], raise_error=True)
    """,
                TRACEREEL_ENDPOINT=sink.url,
                TRACEREEL_EXIT_TIMEOUT="30",
                SSL_CERT_FILE=str(tmp_path / "ca.pem"),
            )
        )
        assert (ended.code, ended.err) == (0, "")
        assert_everything_once(sink, emitters=1, events=20 * (2 + 2 * 3))


@pytest.mark.parametrize("patched", [EARLY, LATE], ids=["patched first", "patched after"])
def test_spans_of_others_are_delivered_from_greenlets_and_forks(child: Child, patched: str) -> None:
    with OtlpSink() as otlp:
        ended = end_of(
            child(
                patched
                + """
    import os, sys
    import gevent
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    provider = TracerProvider()
    trace.set_tracer_provider(provider)
    tracereel.configure()

    def end_span(name):
        with trace.get_tracer("library").start_as_current_span(name):
            gevent.sleep(0)

    gevent.joinall([gevent.spawn(end_span, "parent") for _ in range(20)], raise_error=True)
    assert provider.force_flush(20_000)
    if (pid := os.fork()) == 0:
        end_span("child")
        assert provider.force_flush(20_000)
        sys.exit()
    assert os.waitpid(pid, 0)[1] == 0
    end_span("after")
    """,
                TRACEREEL_ENDPOINT=otlp.url.replace("127.0.0.1", "localhost"),
                TRACEREEL_EXIT_TIMEOUT="30",
            )
        )
        assert (ended.code, ended.err) == (0, "")
        assert sorted(otlp.names) == ["after", "child"] + ["parent"] * 20
