"""Telemetry of coding agents: sessions with runs, prompts, tools, tokens and cost."""

import json
import time

import pytest

from tests.clients import coding_agents
from tests.support.collector import CollectorProcess, http
from tests.support.waiting import wait_until

JSON = {"Content-Type": "application/json"}
SCENES = {
    "claude-code": coding_agents.claude_code,
    "codex": coding_agents.codex,
    "gemini-cli": coding_agents.gemini_cli,
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    collector = CollectorProcess(tmp_path_factory.mktemp("coding")).start()
    start = time.time_ns() - 300 * coding_agents.SECOND
    for scene in SCENES.values():
        for _ in range(2):  # a request that is sent again
            body = json.dumps(scene(start)).encode()
            assert http("POST", f"{collector.url}/v1/logs", body, JSON).status == 200
    yield collector
    collector.stop()


def runs_of(collector, session):
    found = http("GET", f"{collector.url}/v1/traces?session={session}").json()["traces"]
    return sorted(found, key=lambda run: run["started_at"])


@pytest.mark.parametrize(
    ("agent", "session", "calls", "tools", "tokens", "errors"),
    [
        ("claude-code", "s-claude", 2, 1, 1100, 1),
        ("codex", "s-codex", 2, 1, 140, 2),
        ("gemini-cli", "s-gemini", 1, 1, 228, 0),
    ],
)
def test_a_session_of_a_coding_agent_has_runs_with_tokens_cost_and_tools(
    filled, agent, session, calls, tools, tokens, errors
):
    # The price of a model is looked up within seconds of its first call.
    (run,) = wait_until(
        lambda: [each for each in runs_of(filled, session) if each["cost_usd"]], timeout=60
    )

    assert (run["name"], run["status"]) == (f"invoke_agent {agent}", "success")
    assert run["agents"] == [agent]
    assert (run["model_calls"], run["tool_calls"]) == (calls, tools)
    assert (run["tokens"], run["errors"]) == (tokens, errors)
    assert run["session_id"] == session


def test_the_prompt_and_the_answer_of_a_run_are_read_back(filled):
    (run,) = wait_until(lambda: runs_of(filled, "s-claude"), timeout=60)
    page = http("GET", f"{filled.url}/v1/traces/{run['trace_id']}").json()

    def content(name):
        (step,) = [each for each in page["steps"] if each["name"] == name]
        path = f"{filled.url}/v1/traces/{run['trace_id']}/steps/{step['id']}/content"
        return json.dumps(http("GET", path).json())

    assert "fix the tests" in content("claude-code")
    assert "make test" in content("Bash")
    assert "They pass." in content("assistant_response")


def test_the_sent_cost_of_claude_code_is_its_cost(filled):
    (run,) = wait_until(lambda: runs_of(filled, "s-claude"), timeout=60)

    assert run["cost_usd"] == 0.25


def test_the_records_are_kept_as_records(filled):
    statement = b"SELECT count() FROM otel_logs WHERE ServiceName = 'codex_cli_rs'"

    assert http("POST", f"{filled.url}/v1/sql", statement).json()["rows"] == [[7]]
