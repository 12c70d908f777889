"""Redaction of events also applies to spans: names, attributes, owners."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tracereel
from tracereel._redact import event_redaction
from tracereel._redact.event_redaction import Privacy
from tracereel.redaction import Redaction
from tracereel.testing import EventRecorder


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    found = InMemorySpanExporter()
    yield found
    found.shutdown()


def _provider(exporter: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider


NAMED = [
    (tracereel.traced_agent, "gen_ai.agent.name"),
    (tracereel.traced_pipeline, "gen_ai.workflow.name"),
    (tracereel.traced_llm, "gen_ai.request.model"),
    (tracereel.traced_tool, "gen_ai.tool.name"),
    (tracereel.traced_step, "step.name"),
    (tracereel.traced_retrieval, "retrieval.name"),
]


@pytest.mark.parametrize(("decorator", "attribute"), NAMED)
def test_a_name_is_hidden_on_the_span_as_in_the_event(
    decorator: Any, attribute: str, exporter: InMemorySpanExporter
) -> None:
    with EventRecorder(tracer_provider=_provider(exporter)) as events:
        decorator("for ana@example.com")(lambda: 1)()
    (span,) = exporter.get_finished_spans()
    closed = events.events[-1]
    assert span.name == closed["span_name"]
    assert span.name.endswith(" for [redacted:email]")
    assert dict(span.attributes or {})[attribute] == "for [redacted:email]"


def test_the_spans_of_a_retry_hide_names_too(exporter: InMemorySpanExporter) -> None:
    once = tracereel.retry(1)
    with EventRecorder(tracer_provider=_provider(exporter)) as events:
        once(tracereel.traced_agent("ana@example.com")(once(lambda: 1)))()
    names = sorted(span.name for span in exporter.get_finished_spans())
    assert names == [
        "attempt 1 of [redacted:email]",
        "invoke_agent [redacted:email]",
        "retry [redacted:email]",
    ]
    assert sorted(e["span_name"] for e in events if e.get("span_name")) == names


def test_without_content_no_span_of_a_retry_or_fallback_shows_it(
    exporter: InMemorySpanExporter,
) -> None:
    def fails(text: str) -> None:
        raise ValueError(text)

    twice, instead = tracereel.retry(2, sleep=lambda _delay: None), tracereel.fallback(to=str.upper)
    with EventRecorder(tracer_provider=_provider(exporter), capture_content=False) as events:
        tracereel.traced_agent("inside")(instead(twice(fails)))("penicillin")
        instead(twice(tracereel.traced_agent("around")(fails)))("penicillin")
    spans = [span.to_json() for span in exporter.get_finished_spans()]
    assert len(spans) == 7
    assert sum('"error": "ValueError"' in span for span in spans) == 5
    assert "penicillin" not in "".join(spans).lower()
    assert "penicillin" not in str(events.events).lower()


def test_fields_to_drop_or_hash_are_so_on_spans(exporter: InMemorySpanExporter) -> None:
    rules = Redaction(fields={"agent_name": "hash", "decision_type": "drop", "user_id": "hash"})

    @tracereel.traced_agent("parser", user_id="u1")
    def work() -> None:
        tracereel.current_execution().set(decision_type="d", stage="s")

    with EventRecorder(tracer_provider=_provider(exporter), redaction=rules) as events:
        work()
    (span,) = exporter.get_finished_spans()
    shown, closed = dict(span.attributes or {}), events.events[-1]
    assert closed["agent_name"] == event_redaction.hashed("parser")
    assert span.name == closed["span_name"] == f"invoke_agent {event_redaction.hashed('parser')}"
    assert shown["agent.name"] == closed["agent_name"]
    assert shown["user.id"] == closed["user_id"] == event_redaction.hashed("u1")
    assert "agent.decision_type" not in shown
    assert shown["agent.stage"] == "s"


@pytest.mark.parametrize("action", ["drop", "hash"])
def test_errors_to_drop_or_hash_are_so_on_spans(
    action: Any, exporter: InMemorySpanExporter
) -> None:
    def fails(text: str) -> None:
        raise ValueError(text)

    fields = ("error_message", "stack_trace", "original_error", "primary_error", "input_at_error")
    rules = Redaction(fields=dict.fromkeys(fields, action))
    twice, instead = tracereel.retry(2, sleep=lambda _delay: None), tracereel.fallback(to=len)
    with EventRecorder(tracer_provider=_provider(exporter), redaction=rules) as events:
        tracereel.traced_agent("inside")(instead(twice(fails)))("penicillin")
        instead(twice(tracereel.traced_agent("around")(fails)))("penicillin")
    failed = [event for event in events.events if event["event_type"].endswith("failed")]
    spans = exporter.get_finished_spans()
    told = {span.status.description for span in spans if span.name == "invoke_agent around"}
    message = failed[0]["error_message"]
    assert told == {f"ValueError: {message}" if message else "ValueError"}
    assert "penicillin" not in "".join(span.to_json() for span in spans)
    for event in failed:
        assert "penicillin" not in str({name: event[name] for name in fields if name in event})


def test_a_name_is_looked_at_once_for_each_configuration(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tracereel.traced_agent("ana@example.com")(lambda: 1)
    looked: list[Any] = []
    real = Privacy.shown
    monkeypatch.setattr(Privacy, "shown", lambda *args: looked.append(1) or real(*args))
    for redaction_on, name in ((True, "[redacted:email]"), (False, "ana@example.com")):
        exporter.clear()
        with EventRecorder(tracer_provider=_provider(exporter), redaction=redaction_on):
            work()
            work()
        names = [span.name for span in exporter.get_finished_spans()]
        assert names == [f"invoke_agent {name}"] * 2
    assert len(looked) == 2
