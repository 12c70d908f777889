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


def test_events_before_the_thread_was_known_have_it_when_read_back(recording, collector, trace_id):
    frames = [
        frame("tool_status", tool="search_normativa", args={"query": "permiso"}),
        frame("token", text="Son 16 semanas."),
        frame("done", threadId=f"thread_{trace_id}", sources=[]),
    ]
    list(wrap(iter(frames), "ss-expert", trace_id=trace_id))
    tracereel.flush(30.0)
    with tracereel.traced_agent("later"):  # its delivery says that the earlier events are stored
        note = {"event_type": "custom.note"}
        assert tracereel.current_execution().emit(note, wait="stored", timeout=60) == "stored"

    timeline = collector.replay(trace_id).json()["timeline"]

    assert [entry["event"] for entry in timeline] == [
        "agent.execution.started",
        "agent.tool.called",
        "agent.execution.completed",
    ]
    assert {entry["details"]["session_id"] for entry in timeline} == {f"thread_{trace_id}"}
