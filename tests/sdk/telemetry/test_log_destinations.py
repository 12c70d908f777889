"""Where the log lines of events go, and what is in them, by the logging of the program."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.conftest import Child
from tracereel._telemetry import event_log
from tracereel._telemetry.event_log import Logs

MODULE = "apps.appointments.agents.parsing_agent"
AGENTS = """
from tracereel import current_execution, record_decision, retry, traced_agent


@traced_agent("parsing_agent")
def parse(prompt):
    record_decision("entity_extraction")
    current_execution().set(confidence=0.92)
    return int(prompt)


def block():
    with traced_agent("block_agent"):
        pass


@retry(attempts=2, sleep=lambda _seconds: None)
@traced_agent("flaky_agent")
def flaky():
    raise TimeoutError
"""
PROGRAM = f"""
import sys
import tracereel
import {MODULE} as agents


def run():
    agents.parse("7")
    try:
        agents.parse("secret prompt")
    except ValueError:
        pass

"""
Program = Callable[..., tuple[list[dict[str, Any]], str]]
"""Runs code; returns the JSON lines on standard error, and its whole text."""


@pytest.fixture
def program(child: Child, tmp_path: Path) -> Program:
    module = tmp_path / f"{MODULE.replace('.', '/')}.py"
    module.parent.mkdir(parents=True)
    module.write_text(AGENTS)

    def run(code: str, **env: str) -> tuple[list[dict[str, Any]], str]:
        process = child(PROGRAM + code, TRACEREEL_ENDPOINT="http://127.0.0.1:9", **env)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, ""), err
        return [json.loads(line) for line in err.splitlines() if line.startswith("{")], err

    return run


def test_configure_prints_json_lines_where_the_program_has_no_logging(program: Program) -> None:
    found, _ = program("tracereel.configure(exit_timeout=0); run(); agents.block()")
    started, decided, completed, _, _, failed, block, _ = found
    assert started["input_summary"] == "prompt: '7'"
    assert list(completed) == [
        *("event", "agent_name", "trace_id", "execution_time_ms", "confidence"),
        *("timestamp", "level", "logger"),
    ]
    assert (failed["event"], failed["level"]) == ("agent_execution_failed", "error")
    assert {line["logger"] for line in (started, decided, completed, failed, block)} == {MODULE}


def test_lines_of_retries_have_the_logger_of_the_function(program: Program) -> None:
    code = """
tracereel.configure(exit_timeout=0)
try:
    agents.flaky()
except TimeoutError:
    pass
"""
    found, _ = program(code)
    assert "agent_retry_attempted" in [line["event"] for line in found]
    assert {line["logger"] for line in found} == {MODULE}


def test_without_configure_only_failures_are_printed(program: Program) -> None:
    found, _ = program("run()", TRACEREEL_EXIT_TIMEOUT="0")
    assert [line["event"] for line in found] == ["agent_execution_failed"]


LOGGING = """
import logging
logging.basicConfig(level=logging.INFO, format="%(name)s|%(levelname)s|%(message)s")
"""
WARNINGS = LOGGING.replace("level=logging.INFO", "level=logging.WARNING")
STRUCTLOG = f"""
{LOGGING}
import structlog
structlog.configure(
    processors=[structlog.stdlib.add_logger_name, structlog.processors.JSONRenderer()],
    logger_factory=structlog.stdlib.LoggerFactory(),
)
"""
RUN = "tracereel.configure(exit_timeout=0); run()"


@pytest.mark.parametrize("logging_of_program", [LOGGING, STRUCTLOG], ids=["standard", "structlog"])
@pytest.mark.parametrize("mode", ["", "lifecycle", "content"])
def test_programs_with_logging_get_prompts_only_if_they_ask(
    program: Program, logging_of_program: str, mode: str
) -> None:
    _, text = program(logging_of_program + RUN, TRACEREEL_EVENT_LOGS=mode)
    lines = [line for line in text.splitlines() if line.startswith(MODULE)]
    assert len(lines) == 6
    assert lines[-1].startswith(f"{MODULE}|ERROR|")
    assert ("secret prompt" in text) == (mode == "content")


def test_failures_reach_handlers_of_a_program_that_shows_warnings(program: Program) -> None:
    _, text = program(WARNINGS + RUN)
    (line,) = [line for line in text.splitlines() if line.startswith(MODULE)]
    assert "agent_execution_failed" in line


def test_failures_reach_handlers_set_by_dict_config_after_the_first_call(program: Program) -> None:
    code = """
import logging.config
run()
logging.config.dictConfig({
    "version": 1,
    "formatters": {"names": {"format": "%(name)s|%(levelname)s|%(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "names"}},
    "root": {"handlers": ["console"]},
})
run()
"""
    _, text = program(code)
    (line,) = [line for line in text.splitlines() if line.startswith(MODULE)]
    assert "agent_execution_failed" in line


@pytest.mark.parametrize("logging_of_program", ["", LOGGING, STRUCTLOG])
def test_lines_can_be_turned_off(program: Program, logging_of_program: str) -> None:
    _, text = program(logging_of_program + RUN, TRACEREEL_EVENT_LOGS="off")
    assert "agent_execution" not in text


def test_lines_without_prompts_for_a_program_without_logging(program: Program) -> None:
    found, text = program("run()", TRACEREEL_EVENT_LOGS="lifecycle")
    assert len(found) == 6
    assert "secret prompt" not in text


def test_handlers_that_do_nothing_are_no_logging(program: Program) -> None:
    code = f"""
import logging
logging.getLogger("{MODULE}").addHandler(logging.NullHandler())
run()
    """
    found, _ = program(code)
    assert [line["event"] for line in found] == ["agent_execution_failed"]


def test_a_closed_standard_error_is_no_error(program: Program) -> None:
    code = """
from tracereel._runtime import guard
tracereel.configure(exit_timeout=0)
run()
sys.stderr.close()
run()
sys.stderr = None
run()
assert not guard.errors
    """
    found, _ = program(code, TRACEREEL_RAISE_INTERNAL_ERRORS="0")
    assert len(found) == 6


def test_loggers_are_bounded() -> None:
    written = Logs(None)
    for number in range(event_log.MAX_LOGGERS + 10):
        written.write({"event_type": "custom.thing"}, f"generated.{number}")
    assert len(written._loggers) == event_log.MAX_LOGGERS + 1
