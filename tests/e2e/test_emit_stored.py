"""Events that a program emits and waits for, with a real collector."""

import pytest

import tracereel
from tracereel._core import recorder as _recorder
from tracereel.providers import BatchResultNormalizer, message_fields, to_event_store


@pytest.fixture
def recording(collector, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEREEL_RAISE_INTERNAL_ERRORS", "1")
    before = _recorder._active
    tracereel.configure(endpoint=collector.url, spool_dir=tmp_path / "spool")
    yield
    tracereel.shutdown()
    _recorder._active = before


def normalized():
    message = {"type": "ai", "content": [{"type": "thinking", "thinking": "hm"}, "Done."]}
    return BatchResultNormalizer().normalize([message]).events


def test_stored_events_can_be_read_when_the_call_returns(recording, collector):
    with tracereel.traced_agent("clerk"):
        execution = tracereel.current_execution()
        states = [
            execution.emit(message_fields(event), wait="stored", timeout=60)
            for event in normalized()
        ]
        timeline = collector.replay(execution.trace_id).json()["timeline"]

    assert states == ["stored", "stored"]
    events = [each for each in timeline if each["event"] == "agent.message.normalized"]
    thinking, said = (each["details"] for each in events)
    assert (thinking.get("content"), thinking["content_size_bytes"]) == (None, 2)
    assert said["content"] == "Done."
    assert to_event_store(normalized()[1], states[1])["persistence_state"] == "persisted"
    assert to_event_store(normalized()[0], states[0])["persistence_state"] == "transient"
