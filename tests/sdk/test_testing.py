"""Testing helpers: in-memory events, repeatable time and ids, descriptive assertions."""

import os
import re
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tracereel
from tracereel._core import recorder
from tracereel._pytest_plugin import recorded_events  # noqa: F401 - the fixture under test
from tracereel._runtime import clock as _clock
from tracereel.events import parse_event
from tracereel.testing import (
    EventRecorder,
    StepClock,
    assert_event,
    assert_no_event,
    assert_order,
    events_of,
)


@tracereel.traced_agent("greeter", version="1.0.0")
def greet(name: str) -> str:
    tracereel.current_execution().set(confidence=0.9)
    if not name:
        raise ValueError("nobody")
    return f"hello {name}"


def test_events_are_seen_valid_and_numbered(tmp_path: Path) -> None:
    with EventRecorder() as collector:
        greet("Ana")
        greet("Eva")
    assert len(collector.get_events()) == len(collector) == 4
    for event in collector:
        parse_event(event)
    assert [event["emitter_seq"] for event in collector] == [1, 2, 3, 4]
    assert [event.get("trace_event_count") for event in collector] == [None, 2, None, 2]
    assert len(collector.get_events("agent.execution.started")) == 2
    assert not list(tmp_path.rglob("*.ndjson"))
    assert not Path("/nonexistent/tracereel").exists()


def test_the_fixture_records(recorded_events: EventRecorder) -> None:  # noqa: F811
    greet("Ana")
    done = assert_event(
        recorded_events,
        "agent.execution.completed",
        agent_name="greeter",
        confidence=pytest.approx(0.9),
        output_summary="hello Ana",
        timestamp=...,
    )
    assert done["agent_version"] == "1.0.0"
    recorded_events.clear()
    assert recorded_events.events == []


def test_nothing_is_sent_and_no_thread_is_started() -> None:
    before = threading.active_count()
    with EventRecorder():
        greet("Ana")
        assert threading.active_count() == before
        result = tracereel.flush(0.0)
    assert (result.delivered, result.spooled, result.dropped) == (2, 0, 0)


def test_previous_configuration_is_restored() -> None:
    before = recorder._active
    with EventRecorder() as outer:
        greet("outer")
        with EventRecorder() as inner:
            greet("inner")
        greet("outer")
    assert recorder._active is before
    assert (len(outer), len(inner)) == (4, 2)


def test_event_recorder_stops_on_failure_and_stop_is_idempotent() -> None:
    before, clock, ids = recorder._active, _clock.time, _clock._random
    collector = EventRecorder(clock=StepClock(), fixed_ids=True)
    with pytest.raises(ValueError, match="nobody"), collector:
        greet("")
    collector.stop()
    assert recorder._active is before
    assert (_clock.time, _clock._random) == (clock, ids)
    assert_event(collector, "agent.execution.failed", error_type="ValueError")
    with collector, pytest.raises(RuntimeError, match="already"):
        collector.start()


def snapshot() -> list[dict[str, Any]]:
    with EventRecorder(clock=StepClock(), fixed_ids=True) as collector:
        greet("Ana")
    return collector.events


def test_two_runs_are_the_same_with_step_clock_and_fixed_ids() -> None:
    first, second = snapshot(), snapshot()
    assert first == second
    assert first[0]["timestamp"].startswith("2026-01-01T00:00:00")
    assert first[1]["execution_time_ms"] >= 1
    assert time.time() > datetime(2026, 1, 2, tzinfo=UTC).timestamp(), "the program keeps its clock"


def test_a_clock_that_stands_still_is_moved_by_hand() -> None:
    clock = StepClock(datetime(2030, 5, 6, tzinfo=UTC), step_ms=0)

    @tracereel.traced_agent("slow")
    def slow() -> None:
        clock.advance(2.5)

    with EventRecorder(clock=clock) as collector:
        slow()
    done = assert_event(collector, "agent.execution.completed", execution_time_ms=2500)
    assert done["timestamp"] == "2030-05-06T00:00:02.500000Z"


def test_settings_of_privacy_and_sampling_hold_here_too() -> None:
    with EventRecorder(capture_content=False) as quiet:
        greet("Ana")
    assert_event(quiet, "agent.execution.completed", output_summary="")
    with EventRecorder() as careful:
        greet("ana@example.com")
    assert_event(careful, "agent.execution.completed", output_summary="hello [redacted:email]")
    with EventRecorder(sample_rate=0.0) as sampled:
        greet("Ana")
    assert sampled.events == []


def test_events_are_copies_that_later_changes_do_not_reach() -> None:
    with EventRecorder() as collector:
        greet("Ana")
        seen = collector.events
        greet("Eva")
    assert len(seen) == 2


def test_a_forked_child_does_not_write_anywhere(tmp_path: Path) -> None:
    with EventRecorder() as collector:
        child = os.fork()
        if child == 0:
            try:
                greet("child")
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        greet("parent")
    assert len(collector) == 2
    assert not list(tmp_path.rglob("*.ndjson"))


DOCS = Path(__file__).parents[2] / "docs" / "sdk"
SNIPPETS = [
    (page, code)
    for page in ("testing.md", "privacy.md")
    for code in re.findall(
        r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL
    )
]


@pytest.mark.parametrize(("page", "code"), SNIPPETS)
def test_the_snippets_of_the_pages_run(page: str, code: str) -> None:
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(code, page, "exec", dont_inherit=True), names)
    if "test_greeting" in names:
        with EventRecorder() as events:
            names["test_greeting"](events)


EVENTS: list[dict[str, Any]] = [
    {"event_type": "agent.execution.started", "agent_name": "a", "event_id": "evt_1"},
    {
        "event_type": "agent.retry.attempted",
        "agent_name": "a",
        "retry_attempt": 1,
        "event_id": "evt_2",
    },
    {
        "event_type": "agent.execution.completed",
        "agent_name": "a",
        "stage": None,
        "event_id": "evt_3",
    },
]


def test_events_of_a_family() -> None:
    assert len(events_of(EVENTS, "agent.execution.*")) == 2
    assert events_of(EVENTS, "agent.execution") == []


def test_assertion_for_a_missing_event_lists_recorded_events() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_event(EVENTS, "agent.execution.failed")
    message = str(caught.value)
    assert "no event agent.execution.failed; recorded:" in message
    assert "2. agent.retry.attempted (a)" in message
    with pytest.raises(AssertionError, match="nothing"):
        assert_event([], "agent.execution.failed")
    with pytest.raises(AssertionError, match="and 5 more"):
        assert_event([EVENTS[0]] * 35, "agent.execution.failed")


def test_assertion_for_a_different_field_shows_both_values() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_event(EVENTS, "agent.execution.completed", agent_name="b", stage=..., cost=1)
    message = str(caught.value)
    assert "agent_name: 'a', expected 'b'" in message
    assert "stage: null, expected a value" in message
    assert "cost: not there, expected 1; the event has agent_name," in message
    assert "evt_3" in message


def test_absence_and_order() -> None:
    assert_no_event(EVENTS, "agent.execution.failed")
    assert_no_event(EVENTS, "agent.retry.attempted", retry_attempt=2)
    with pytest.raises(AssertionError, match="was recorded"):
        assert_no_event(EVENTS, "agent.retry.attempted")
    assert_order(EVENTS, "agent.execution.started", "agent.execution.completed")
    with pytest.raises(AssertionError, match=r"after agent\.execution\.completed"):
        assert_order(EVENTS, "agent.execution.completed", "agent.execution.started")
