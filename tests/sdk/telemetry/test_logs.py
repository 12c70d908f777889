"""Log lines have the contract's keys and are printed only if configured."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry

import tracereel
from tests.sdk.conftest import Child
from tests.support.ingest_sink import IngestSink
from tracereel import current_execution, record_decision, traced_agent, traced_pipeline
from tracereel._telemetry import event_log
from tracereel._telemetry.event_log import Logs
from tracereel.errors import ConfigurationError
from tracereel.events import EVENT_TYPES
from tracereel.logs import TraceContextFilter, add_trace_context, configure_logs
from tracereel.propagation import extract

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
    structlog.reset_defaults()  # other tests in this process may have configured it
    with caplog.at_level(logging.INFO, __name__):
        traced_agent("a")(lambda: None)()
    line = json.loads(caplog.records[-1].getMessage())
    assert (line["event"], line["level"]) == ("agent_execution_completed", "info")
    assert line["logger"] == caplog.records[-1].name == __name__
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


# Every type has a line.


@pytest.fixture
def capture() -> tuple[Logs, list[structlog.typing.EventDict]]:
    found = structlog.testing.LogCapture()
    return Logs(structlog.wrap_logger(None, processors=[found])), found.entries


def test_lines_are_named_after_the_types(
    capture: tuple[Logs, list[structlog.typing.EventDict]],
) -> None:
    written, lines = capture
    for kind in [*EVENT_TYPES, "custom.my.thing"]:
        written.write({"event_type": kind, "trace_id": "t"})
    assert [line["event"] for line in lines] == [
        kind.replace(".", "_") for kind in [*EVENT_TYPES, "custom.my.thing"]
    ]
    assert {line["trace_id"] for line in lines} == {"t"}
    levels = {line["event"]: line["log_level"] for line in lines}
    assert levels.pop("agent_execution_failed") == "error"
    assert levels.pop("agent_message_normalized") == "debug"
    assert set(levels.values()) == {"info"}


@pytest.mark.parametrize("kind", ["agent.llm.called", "agent.tool.called"])
def test_calls_that_failed_are_errors(
    capture: tuple[Logs, list[structlog.typing.EventDict]], kind: str
) -> None:
    written, lines = capture
    written.write({"event_type": kind, "status": "failed"})
    assert lines[0]["log_level"] == "error"


# Files and the console.


@pytest.fixture
def _logs_restored() -> Iterator[None]:
    yield
    configure_logs()
    assert not event_log._handlers


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def wait_for_lines(path: Path, count: int) -> list[dict[str, Any]]:
    deadline = time.monotonic() + 10
    while len(lines := read_lines(path)) < count and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    return lines


@pytest.mark.usefixtures("_logs_restored")
def test_a_failure_is_in_the_file_at_once_and_so_is_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    configure_logs(path=path)
    written = Logs(None)
    written.write({"event_type": "custom.thing", "trace_id": "first"})
    written.write({"event_type": "custom.thing", "trace_id": "second", "status": "failed"})
    assert [line["trace_id"] for line in read_lines(path)] == ["first", "second"]


@pytest.mark.usefixtures("_logs_restored")
def test_lines_gathered_before_a_fork_are_written_by_the_parent_alone(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    configure_logs(path=path)
    written = Logs(None)
    written.write({"event_type": "custom.thing", "trace_id": "before"})
    child = os.fork()
    if child == 0:
        written.write({"event_type": "custom.thing", "trace_id": "in the child"})
        event_log._handlers[0].flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    written.write({"event_type": "custom.thing", "trace_id": "in the parent"})
    found = sorted(line["trace_id"] for line in wait_for_lines(path, 3))
    assert found == ["before", "in the child", "in the parent"]


@pytest.mark.usefixtures("_logs_restored")
def test_a_file_gets_the_line_of_the_contract(recorded: Deliver, tmp_path: Path) -> None:
    path = tmp_path / "made" / "events.log"
    assert configure_logs(path=path)
    traced_agent("parsing_agent")(lambda: current_execution().set(confidence=0.92))()  # type: ignore[union-attr]
    _, line = wait_for_lines(path, 2)
    completed = recorded()[1]
    assert line == {
        "event": "agent_execution_completed",
        "agent_name": "parsing_agent",
        "trace_id": completed["trace_id"],
        "execution_time_ms": completed["execution_time_ms"],
        "confidence": 0.92,
        "timestamp": completed["timestamp"],
        "level": "info",
        "logger": __name__,
    }
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("_logs_restored")
def test_full_log_file_is_rotated_and_the_oldest_removed(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    configure_logs(path=path, max_bytes=1000, backups=2)
    written = Logs(None)
    for number in range(100):
        written.write({"event_type": "custom.thing", "trace_id": f"t{number}"})
    event_log._handlers[0].flush()
    names = sorted(file.name for file in tmp_path.glob("events.log*"))
    assert names == ["events.log", "events.log.1", "events.log.2"]
    assert all(file.stat().st_size <= 1000 for file in tmp_path.glob("events.log*"))
    kept = [line["trace_id"] for name in reversed(names) for line in read_lines(tmp_path / name)]
    assert kept == [f"t{number}" for number in range(100 - len(kept), 100)]


@pytest.mark.usefixtures("_logs_restored")
def test_processes_that_share_a_file_lose_no_line(tmp_path: Path, child: Child) -> None:
    code = """
        import os, sys
        from tracereel._telemetry.event_log import Logs, configure_logs
        assert configure_logs(path=os.environ["LOG"], max_bytes=50_000, backups=1000)
        written = Logs(None)
        for number in range(2000):
            written.write({"event_type": "custom.thing", "trace_id": f"{os.getpid()}-{number}"})
        """
    children = [child(code, LOG=str(tmp_path / "events.log")) for _ in range(3)]
    for process in children:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    seen = [line["trace_id"] for file in tmp_path.glob("events.log*") for line in read_lines(file)]
    assert sorted(seen) == sorted(f"{c.pid}-{number}" for c in children for number in range(2000))


@pytest.mark.usefixtures("_logs_restored")
def test_the_console_is_standard_error_and_the_level_counts(
    recorded: Deliver, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    configure_logs(console=True, level="error", path=tmp_path / "both.log")
    traced_agent("a")(lambda: None)()
    with pytest.raises(ValueError, match="x"):
        traced_agent("a")(lambda: int("x"))()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [json.loads(line)["event"] for line in shown.err.splitlines()] == [
        "agent_execution_failed"
    ]
    assert len(read_lines(tmp_path / "both.log")) == 1


@pytest.mark.usefixtures("_logs_restored")
def test_unusable_log_file_is_logged_and_not_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert configure_logs(path=tmp_path) is False
    assert "no event log in" in caplog.text
    with pytest.raises(ConfigurationError, match="loud"):
        configure_logs(level="loud")


def test_disabled_log_lines_are_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    class Untouchable(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            assert key == "status"
            return None

    Logs(None).write(Untouchable(event_type="agent.execution.started"))


# Trace ids on the program's own log lines.


def test_structlog_lines_get_the_ids_of_the_current_execution(recorded: Deliver) -> None:
    found = structlog.testing.LogCapture()
    logger = structlog.wrap_logger(None, processors=[add_trace_context, found])

    @traced_agent("inner")
    def inner() -> None:
        logger.info("hello", request_id="given")

    @traced_pipeline("p")
    def outer() -> None:
        logger.info("before")
        inner()

    outer()
    logger.info("after")
    before, hello, after = found.entries
    opened = {e.get("agent_name"): e for e in recorded() if e["event_type"].endswith("started")}
    assert hello["trace_id"] == before["trace_id"] == opened["inner"]["trace_id"]
    assert hello["span_id"] == opened["inner"]["span_id"]
    assert (hello["agent_name"], hello["request_id"]) == ("inner", "given")
    assert before["request_id"] == opened["inner"]["request_id"]
    assert "agent_name" not in before
    assert after == {"event": "after", "log_level": "info"}


def test_standard_records_get_them_by_a_filter(recorded: Deliver) -> None:
    stream: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            stream.append(self.format(record))

    handler = Collect()
    handler.addFilter(TraceContextFilter())
    handler.setFormatter(logging.Formatter("%(trace_id)s|%(span_id)s|%(agent_name)s|%(message)s"))
    logger = logging.getLogger("some.program")
    logger.addHandler(handler)
    try:
        traced_agent("a")(lambda: logger.warning("inside"))()
        logger.warning("outside")
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        with extract({"traceparent": parent, "baggage": "tracereel.trace_id=trc_abc"}):
            logger.warning("handling")
    finally:
        logger.removeHandler(handler)
    opened = recorded()[0]
    assert stream == [
        f"{opened['trace_id']}|{opened['span_id']}|a|inside",
        "|||outside",
        "trc_abc|b7ad6b7169203331||handling",
    ]
