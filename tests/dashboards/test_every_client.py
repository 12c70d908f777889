"""Boards are filled by clients that only send OTLP, with the totals of the list."""

import pytest

from tests.clients import fields
from tests.support import grafana
from tests.support.collector import CollectorProcess, http
from tests.support.waiting import wait_until

PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    made = CollectorProcess(tmp_path_factory.mktemp("boards")).start()
    body = fields.spans_of("both-genai").SerializeToString()
    assert http("POST", f"{made.url}/v1/traces", body, PROTOBUF).status == 200
    wait_until(lambda: made.metric("tracereel_settled_traces_total", outcome="settled") > 0)
    yield made
    made.stop()


def shown(collector, name):
    """Return the rows of a query of a board as dictionaries."""
    text = (grafana.FOLDER / "queries" / f"{name}.sql").read_text("utf-8")
    filled = grafana.sql(text, since=0, until=4_000_000_000, values={})
    answer = http("POST", f"{collector.url}/v1/sql", filled.encode()).json()
    return [
        dict(zip((c["name"] for c in answer["columns"]), row, strict=True))
        for row in answer["rows"]
    ]


def listed(collector):
    runs = http("GET", f"{collector.url}/v1/traces").json()["traces"]
    return sum(run["model_calls"] for run in runs), sum(run["tokens"] for run in runs)


def test_models_have_the_calls_and_tokens_of_the_list(collector):
    (now,) = shown(collector, "models_now")

    assert (now["calls"], int(now["tokens"])) == listed(collector)
    assert now["cost"] > 0
    assert 0 < now["failing"] < 1


@pytest.mark.parametrize(
    "name", ["model_costs", "model_tokens", "model_first_tokens", "model_durations"]
)
def test_models_are_shown_over_time(collector, name):
    rows = shown(collector, name)

    assert rows
    assert all(row["model"] for row in rows)


def test_agents_have_their_executions_calls_and_cost(collector):
    (now,) = shown(collector, "agents_now")
    (agent,) = shown(collector, "agent_table")

    assert agent["agent"] == "guide"
    assert int(agent["executions"]) == int(now["executions"]) > 0
    assert int(agent["tokens"]) == int(now["tokens"]) > 0
    assert agent["cost"] > 0
    assert {row["agent"] for row in shown(collector, "agent_tokens")} == {"guide"}
    assert {row["agent"] for row in shown(collector, "agent_executions")} == {"guide"}
