"""From decorator to replay across real processes, without data loss."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.collector import CollectorProcess
from tests.support.waiting import wait_until

AGENTS = """
import asyncio, os, signal, sys
import tracereel

@tracereel.traced_agent("parsing_agent", version="1.0.0", llm_provider="scripted", llm_model="m-1")
async def parse(prompt):
    tracereel.record_decision(
        "entity_extraction", reasoning="a date is named", confidence=0.92,
        input_data={"prompt": prompt}, output_data={"date": "tomorrow"},
    )
    tracereel.current_execution().set(confidence=0.92, reasoning="clear request")
    return {"date": "tomorrow"}

class Geo:
    @tracereel.traced_agent("geo_agent")
    def locate(self, place):
        raise LookupError(f"no such place: {place}")

@tracereel.traced_pipeline("appointment_creation", agents=["parsing_agent", "geo_agent"])
async def book(user_prompt, user_id):
    print(tracereel.current_execution().trace_id, flush=True)
    entities = await parse(user_prompt)
    try:
        Geo().locate("Atlantis")
    except LookupError:
        pass
    return entities
"""
ONE_RUN = AGENTS + 'asyncio.run(book("cita mañana", "user_1"))\n'
MANY_RUNS_THEN_KILL_9 = AGENTS + textwrap.dedent(
    """
    async def main():
        for _ in range(10):
            await book("cita mañana", "user_1")
    asyncio.run(main())
    os.kill(os.getpid(), signal.SIGKILL)
    """
)
IN_OTHER_PROCESSES = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import tracereel

@tracereel.traced_agent("geo_agent")
def locate(place):
    if place == "Atlantis":
        raise LookupError(place)
    return place

@tracereel.traced_pipeline("appointment_creation", agents=["geo_agent"])
def book():
    print(tracereel.current_execution().trace_id, flush=True)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = [pool.submit(tracereel.carry(locate), place) for place in ("Rome", "Atlantis")]
        return [each.exception() is None for each in found]

if __name__ == "__main__":
    assert book() == [True, False]
"""
EVENTS_OF_A_RUN = [
    "agent.pipeline.started",
    "agent.execution.started",
    "agent.decision.recorded",
    "agent.execution.completed",
    "agent.execution.started",
    "agent.execution.failed",
    "agent.pipeline.completed",
]


def run(script, spool, url):
    """Run an agent program; return the printed trace ids and its exit."""
    environ = {
        **os.environ,
        "TRACEREEL_ENDPOINT": url,
        "TRACEREEL_SPOOL_DIR": str(spool),
        "OTEL_SERVICE_NAME": "clinic",
    }
    given = [str(script)] if isinstance(script, Path) else ["-c", script]
    done = subprocess.run(
        [sys.executable, *given], env=environ, capture_output=True, text=True, check=False
    )
    return re.findall(r"(?m)^[0-9a-f]{32}$", done.stdout), done


def ship(spool, url):
    return subprocess.run(
        [
            *(sys.executable, "-m", "tracereel", "ship", "--endpoint", url),
            *("--spool-dir", str(spool), "--timeout", "20"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def replay(collector, trace_id):
    answer = wait_until(
        lambda: answer if (answer := collector.replay(trace_id)).status == 200 else None
    )
    return answer.json()


def complete(collector, trace_id):
    return wait_until(
        lambda: (
            found
            if len((found := replay(collector, trace_id))["timeline"]) == len(EVENTS_OF_A_RUN)
            else None
        )
    )


def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_run_is_replayed_as_it_happened(collector, tmp_path):
    (trace_id,), done = run(ONE_RUN, tmp_path, collector.url)
    assert done.returncode == 0, done.stderr

    found = complete(collector, trace_id)

    assert [entry["event"] for entry in found["timeline"]] == EVENTS_OF_A_RUN
    details = [entry["details"] for entry in found["timeline"]]
    opened, started, decision, completed, located, failed, closed = details
    assert opened["user_prompt"] == "cita mañana"
    assert opened["user_id"] == "user_1"
    assert started["parent_span_id"] == opened["span_id"]
    assert completed["span_id"] == decision["span_id"] == started["span_id"]
    assert (completed["confidence"], completed["reasoning"]) == (0.92, "clear request")
    assert (started["llm_provider"], started["llm_model"]) == ("scripted", "m-1")
    assert failed["error_type"] == "LookupError"
    assert (located["agent_name"], failed["agent_name"]) == ("geo_agent", "geo_agent")
    unknown = ("agent_version", "llm_provider", "llm_model", "temperature", "max_tokens")
    assert [located[field] for field in unknown] == [None] * 5
    assert (closed["status"], closed["agents_failed"]) == ("partial_success", 1)
    assert [each["emitter_seq"] for each in details] == list(range(1, 8))
    assert [each["trace_seq"] for each in details] == list(range(1, 8))
    assert closed["trace_event_count"] == 7
    assert {each["service"] for each in details} == {"clinic"}
    summary = found["summary"]
    assert (summary["agents_executed"], summary["errors"], summary["decisions"]) == (2, 1, 1)


def test_a_pipeline_has_the_agents_of_other_processes(collector, tmp_path):
    program = tmp_path / "program.py"  # a file, because pool workers import it
    program.write_text(IN_OTHER_PROCESSES)
    [trace_id], done = run(program, tmp_path / "spool", collector.url)
    assert done.returncode == 0, done.stderr

    told = wait_until(
        lambda: (
            found
            if (found := replay(collector, trace_id))["summary"]["total_events"] == 6
            else None
        )
    )
    [pipeline] = told["summary"]["pipelines"]

    assert pipeline["status"] == "partial_success"
    assert (pipeline["agents_executed"], pipeline["agents_succeeded"]) == (2, 1)
    assert pipeline["agents_failed"] == 1
    own = told["timeline"][-1]["details"]
    assert (own["event_type"], own["agents_executed"]) == ("agent.pipeline.completed", 0)


@pytest.mark.fault
@pytest.mark.parametrize("how", ["tracereel ship", "the next process"])
def test_a_killed_agent_loses_nothing_it_had_recorded(collector, tmp_path, how):
    """The agent dies right after its last event, before it can send anything."""
    port = unused_port()
    traces, done = run(MANY_RUNS_THEN_KILL_9, tmp_path, f"http://127.0.0.1:{port}")
    assert done.returncode == -signal.SIGKILL
    assert len(traces) == 10
    late = CollectorProcess(tmp_path / "data", port=port).start()
    try:
        if how == "tracereel ship":
            shipped = ship(tmp_path, late.url)
            assert shipped.returncode == 0, shipped.stderr
        else:
            assert run(ONE_RUN, tmp_path, late.url)[1].returncode == 0

        for trace_id in traces:
            found = complete(late, trace_id)
            assert [entry["event"] for entry in found["timeline"]] == EVENTS_OF_A_RUN
        wait_until(lambda: not list(tmp_path.rglob("*.ndjson")))
    finally:
        late.stop()


def test_an_agent_does_not_notice_that_the_collector_is_away(tmp_path):
    (trace_id,), done = run(ONE_RUN, tmp_path, f"http://127.0.0.1:{unused_port()}")

    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    lines = [
        json.loads(line)
        for file in tmp_path.rglob("*.ndjson")
        for line in file.read_text().splitlines()
    ]
    assert [line["trace_id"] for line in lines] == [trace_id] * len(EVENTS_OF_A_RUN)


@pytest.mark.fault
def test_a_collector_killed_in_mid_stream_gets_every_event_once(new_collector, tmp_path):
    collector = new_collector(port=unused_port()).start()
    script = AGENTS + textwrap.dedent(
        """
        async def main():
            for _ in range(300):
                await book("cita mañana", "user_1")
        asyncio.run(main())
        """
    )
    environ = {
        **os.environ,
        "TRACEREEL_ENDPOINT": collector.url,
        "TRACEREEL_SPOOL_DIR": str(tmp_path / "spool"),
    }
    agent = subprocess.Popen(
        [sys.executable, "-c", script],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    wait_until(
        lambda: collector.metric("tracereel_records_appended_total", kind="events") > 50, timeout=30
    )
    collector.kill()
    collector.start()
    traces = agent.communicate(timeout=60)[0].split()
    assert ship(tmp_path / "spool", collector.url).returncode == 0

    wait_until(
        lambda: (
            collector.metric("tracereel_records_stored_total", kind="events")
            == 300 * len(EVENTS_OF_A_RUN)
        ),
        timeout=30,
    )
    for trace_id in traces[::30]:
        assert len(replay(collector, trace_id)["timeline"]) == len(EVENTS_OF_A_RUN)
