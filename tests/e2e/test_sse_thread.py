"""The thread of an SSE agent in a real collector: all events of the first turn have it."""

import json

import pytest

import tracereel
from tracereel._core import recorder as _recorder
from tracereel.integrations.sse import wrap


@pytest.fixture
def recording(collector, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEREEL_RAISE_INTERNAL_ERRORS", "1")
    before = _recorder._active
    tracereel.configure(endpoint=collector.url, spool_dir=tmp_path / "spool")
    yield
    tracereel.shutdown()
    _recorder._active = before


def frame(event, **data):
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


def _wait_until_stored():
    tracereel.flush(30.0)
    with tracereel.traced_agent("later"):  # its delivery says that the earlier events are stored
        note = {"event_type": "custom.note"}
        assert tracereel.current_execution().emit(note, wait="stored", timeout=60) == "stored"


def test_events_before_the_thread_was_known_have_it_when_read_back(recording, collector, trace_id):
    frames = [
        frame("tool_status", tool="search_normativa", args={"query": "permiso"}),
        frame("token", text="Son 16 semanas."),
        frame("done", threadId=f"thread_{trace_id}", sources=[]),
    ]
    list(wrap(iter(frames), "ss-expert", trace_id=trace_id))
    _wait_until_stored()

    timeline = collector.replay(trace_id).json()["timeline"]

    assert [entry["event"] for entry in timeline] == [
        "agent.execution.started",
        "agent.tool.called",
        "agent.execution.completed",
    ]
    assert {entry["details"]["session_id"] for entry in timeline} == {f"thread_{trace_id}"}


@pytest.mark.parametrize("ticks", [0, 2_100])
def test_events_around_and_inside_the_turn_have_its_thread_too(
    recording, collector, trace_id, ticks
):
    """Above 2,000 events, a run is read by page."""

    @tracereel.traced_agent("searcher")
    def search():
        return "16 weeks"

    def answer():
        yield frame("token", text=search())
        yield frame("done", threadId=f"thread_{trace_id}", sources=[])

    with tracereel.traced_pipeline("POST /ask", trace_id=trace_id) as pipeline:
        for number in range(ticks):
            pipeline.emit({"event_type": "custom.tick", "number": number})
        list(wrap(answer(), "ss-expert"))
    _wait_until_stored()

    answered = collector.replay(f"{trace_id}?limit=5000" if ticks else trace_id).json()

    assert answered["summary"].get("in_short", False) is bool(ticks)
    assert len(answered["timeline"]) == 6 + ticks
    sessions = {entry["details"].get("session_id") for entry in answered["timeline"]}
    assert sessions == {f"thread_{trace_id}"}


def test_events_of_a_run_with_two_threads_have_that_of_their_execution(
    recording, collector, trace_id
):
    with tracereel.traced_pipeline("both", trace_id=trace_id):
        for number in (1, 2):
            frames = [frame("done", threadId=f"thread_{number}_{trace_id}", sources=[])]
            list(wrap(iter(frames), "ss-expert"))
    _wait_until_stored()

    timeline = collector.replay(trace_id).json()["timeline"]

    assert [entry["details"].get("session_id") for entry in timeline] == [
        None,
        *[f"thread_1_{trace_id}"] * 2,
        *[f"thread_2_{trace_id}"] * 2,
        None,
    ]
