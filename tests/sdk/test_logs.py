"""Log lines have the keys of the contract and never print unasked."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

import tracereel
from tests.support.ingest_sink import IngestSink
from tracereel import current_execution, record_decision, traced_agent, traced_pipeline

Deliver = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def lines(sink: IngestSink, registry: CollectorRegistry) -> list[structlog.typing.EventDict]:
    capture = structlog.testing.LogCapture()
    logger = structlog.wrap_logger(None, processors=[capture])
    tracereel.configure(endpoint=sink.url, registry=registry, logger=logger)
    return capture.entries


def test_an_execution_has_the_keys_of_the_contract(
    lines: list[structlog.typing.EventDict],
) -> None:
    @traced_agent("parsing_agent")
    def parse(prompt: str) -> None:
        execution = current_execution()
        assert execution is not None
        execution.set(confidence=0.92)

    parse("hello")
    started, completed = lines
    trace_id = started["trace_id"]
    assert started == {
        "event": "agent_execution_started",
        "log_level": "info",
        "agent_name": "parsing_agent",
        "trace_id": trace_id,
        "input_summary": "prompt: 'hello'",
    }
    assert completed == {
        "event": "agent_execution_completed",
        "log_level": "info",
        "agent_name": "parsing_agent",
        "trace_id": trace_id,
        "execution_time_ms": completed["execution_time_ms"],
        "confidence": 0.92,
    }


def test_a_failure_is_an_error(lines: list[structlog.typing.EventDict]) -> None:
    @traced_pipeline("p")
    @traced_agent("a")
    def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    failed = {line["event"]: line for line in lines if line["log_level"] == "error"}
    assert set(failed) == {"agent_execution_failed", "agent_pipeline_completed"}
    line = failed["agent_execution_failed"]
    assert set(line) - {"event", "log_level"} == {
        "agent_name",
        "trace_id",
        "error_type",
        "was_retried",
        "retry_count",
    }


def test_decisions_and_pipelines_have_lines(lines: list[structlog.typing.EventDict]) -> None:
    traced_pipeline("p")(lambda: record_decision("d"))()
    assert [line["event"] for line in lines] == [
        "agent_pipeline_started",
        "agent_decision_recorded",
        "agent_pipeline_completed",
    ]


def test_unconfigured_they_go_to_the_standard_logger_as_json(
    recorded: Deliver, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "tracereel.events"):
        traced_agent("a")(lambda: None)()
    line = json.loads(caplog.records[-1].getMessage())
    assert (line["event"], line["level"]) == ("agent_execution_completed", "info")
    assert line["logger"] == "tracereel.events"
    assert line["timestamp"].endswith("Z")
    assert capsys.readouterr().out == ""


def test_below_the_level_nothing_is_logged(
    recorded: Deliver, caplog: pytest.LogCaptureFixture
) -> None:
    traced_agent("a")(lambda: None)()
    assert not caplog.records


def test_a_program_that_configured_structlog_gets_the_lines_its_way(recorded: Deliver) -> None:
    capture = structlog.testing.LogCapture()
    structlog.configure(processors=[capture])
    try:
        traced_agent("a")(lambda: None)()
    finally:
        structlog.reset_defaults()
    assert [line["event"] for line in capture.entries] == [
        "agent_execution_started",
        "agent_execution_completed",
    ]
