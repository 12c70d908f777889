"""Checks of the design card: packages, layout, parts."""

import json
import re
import tomllib
from pathlib import Path

import yaml

import tracereel
from tests.seeds.registry import check, collector_check
from tracereel.testing import EventRecorder

ROOT = Path(__file__).parents[3]


def _project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@check
def package(row, evidence):
    project = _project()
    needed = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["collector"],
        *project["dependency-groups"]["dev"],
    ]
    assert any(each.partition(">=")[0] == row["name"] for each in needed)
    imported = re.compile(rf"^\s*(from|import) {re.escape(row['module'])}\b", re.MULTILINE)
    sources = [*(ROOT / "sdk").rglob("*.py"), *(ROOT / "collector").rglob("*.py")]
    assert any(imported.search(source.read_text(encoding="utf-8")) for source in sources)


@check
def path(row, evidence):
    found = ROOT / row["name"]
    assert found.is_dir() if row["name"].endswith("/") else found.is_file()


@check
def compose(row, evidence):
    """Services of both stacks exist, and what they mount is in the repository."""
    document = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    services = document["services"]
    assert {"collector", "clickhouse", "grafana", "jaeger", "prometheus"} <= services.keys()
    mounted = [
        volume.partition(":")[0]
        for service in services.values()
        for volume in service.get("volumes", ())
        if isinstance(volume, str) and volume.startswith("./")
    ]
    assert mounted
    assert [each for each in mounted if not (ROOT / each).exists()] == []


@check
def decorators(row, evidence):
    with EventRecorder() as recorder:

        @tracereel.traced_pipeline("pipeline")
        def run():
            tracereel.traced_agent("agent")(work)()

        def work():
            tracereel.traced_llm("model")(lambda: "text")()
            tracereel.traced_tool("tool")(lambda: 1)()
            tracereel.traced_step("step")(lambda: 1)()
            tracereel.traced_retrieval("search")(lambda: ["a"])()
            tracereel.traced_decision("choice")(lambda: "a")()

        run()
    kinds = {event["event_type"].rpartition("agent.")[2] for event in recorder}
    assert {
        *("pipeline.started", "pipeline.completed", "execution.started", "execution.completed"),
        *("llm.called", "tool.called", "step.completed", "retrieval.completed"),
        "decision.recorded",
    } == kinds


@collector_check
def stored_in_clickhouse(row, evidence):
    assert evidence.stored_declared
    answer = evidence.client.sql(
        "SELECT event_type, agent_name FROM agent_events WHERE trace_id = 'trc_declared'"
    )
    rows = {tuple(each) for each in answer.rows}
    assert ("agent.execution.completed", "parsing_agent") in rows


@check
def dashboards(row, evidence):
    boards = sorted((ROOT / "dashboards" / "json").glob("*.json"))
    assert len(boards) >= 6
    for board in boards:
        document = json.loads(board.read_text(encoding="utf-8"))
        assert document["title"]
        assert document["panels"]
