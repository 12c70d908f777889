"""Checks of log lines."""

import json
from pathlib import Path

from tests.seeds.registry import check
from tests.seeds.types import is_of_type


def lines(evidence):
    """Return the lines of a program with a log file, by name."""
    path = evidence.folder / "events.log"
    evidence.run("logs.py", str(path))
    found = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    return {line["event"]: line for line in found}


@check
def log_line(row, evidence):
    line = lines(evidence)[row["line"]]
    assert line["level"] == row["level"]
    assert set(row["keys"]) <= line.keys()
    assert all(line[key] is not None for key in row["keys"])


@check
def log_key(row, evidence):
    assert is_of_type(lines(evidence)["agent_execution_completed"][row["key"]], row["type"])


@check
def log_logger(row, evidence):
    assert {line["logger"] for line in lines(evidence).values()} == {"log_agents"}


@check
def log_lines_by_default(row, evidence):
    done = evidence.run("logs.py")
    shown = {}
    for line in (done.stdout + done.stderr).splitlines():
        if line.startswith("{"):
            document = json.loads(line)
            shown[document["event"]] = document
    assert {"agent_execution_completed", "agent_execution_failed"} <= shown.keys()
    assert shown["agent_execution_completed"]["confidence"] == 0.92


@check
def reaches_log_file(row, evidence):
    found = lines(evidence)
    assert {"agent_execution_started", "agent_execution_completed"} <= found.keys()
    assert found["agent_execution_completed"]["agent_name"] == "parsing_agent"


@check
def error_logged(row, evidence):
    line = lines(evidence)["agent_execution_failed"]
    assert (line["level"], line["error_type"]) == ("error", "RuntimeError")
