"""What the collector shows of recordings of real clients, against reviewed values."""

import json
import re
from pathlib import Path

import pytest

from tests.clients import fields
from tests.support.engine_store import store_of_its_own

DOCS = Path(__file__).parents[2] / "docs"
REVIEWED = json.loads(fields.FIELDS.read_text(encoding="utf-8"))
ANTHROPIC = ("both-anthropic", "genai-anthropic", "logfire-anthropic", "openinference-anthropic")
STREAMS_OUTSIDE = (
    *("both-genai", "both-openinference"),
    *("genai-langchain", "langsmith", "openinference-langchain"),
)
"""Clients whose scene streams its last answer outside of the agent."""
WITHOUT_ALL_MESSAGES = ("genai-agents", "openinference-crewai", "openinference-litellm")


@pytest.fixture(scope="module")
def shown():
    with store_of_its_own() as store:
        yield fields.Shown(store).all()


@pytest.mark.parametrize("client", fields.CLIENTS)
def test_the_fields_of_a_client_are_as_reviewed(shown, client):
    assert json.loads(json.dumps(shown[client])) == REVIEWED[client]


def test_every_recording_names_its_packages():
    assert sorted(REVIEWED) == fields.CLIENTS
    assert all(fields.recording(client)["packages"] for client in fields.CLIENTS)


@pytest.mark.parametrize("client", fields.CLIENTS)
def test_every_client_has_the_tokens_that_the_provider_counted(client):
    """The stand-in gives each provider's answers one usage, whatever the client makes of it."""
    said = REVIEWED[client]
    # ADK adds the reasoning tokens to an output that has them already.
    output = [38] if client == "adk-2" else [15] if client in ANTHROPIC else [30]

    assert said["tokens_in"] in ([], [370] if client in ANTHROPIC else [120])
    assert said["tokens_out"] in ([], output)
    assert said["cached"] in ([], [300] if client in ANTHROPIC else [40])


@pytest.mark.parametrize("client", fields.CLIENTS)
def test_a_tool_has_arguments_and_result_or_is_not_sent(client):
    said = REVIEWED[client]

    assert said["tool_arguments"] in ([], [{"city": "Lima"}], ["Lima"])
    assert said["tool_result"] in ([], [{"sky": "sunny"}])


@pytest.mark.parametrize("client", fields.CLIENTS)
def test_a_failed_call_has_its_reason_and_every_run_ends(client):
    said = REVIEWED[client]

    assert any("429" in each or "slow down" in each or "Error" in each for each in said["error"])
    assert set(said["status"]) <= {"success", "failed"}


@pytest.mark.parametrize("client", fields.CLIENTS)
def test_list_page_and_sql_agree_on_calls_tokens_cost_and_errors(client):
    for each in REVIEWED[client]["totals"]:
        calls, tokens, cost, errors = each["list"]
        assert each["page"] == [tokens, cost, errors]
        assert each["model_calls"] == [calls, tokens, cost]


@pytest.mark.parametrize("client", [each for each in fields.CLIENTS if each.startswith("both-")])
def test_two_instrumentations_count_each_call_once(client):
    """Each scene has a tool round or two calls, a streamed answer and a failing call."""
    totals = [each["list"] for each in REVIEWED[client]["totals"]]

    assert sum(calls for calls, *_ in totals) in (3, 4, 5)
    assert sum(tokens for _, tokens, *_ in totals) in (450, 600, 770)


def test_two_calls_at_the_same_time_stay_two():
    spans = [
        (scope.scope.name, span.start_time_unix_nano, span.end_time_unix_nano)
        for resource in fields.spans_of("both-parallel").resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        if "weather" not in span.name
    ]
    pairs = [(a, b) for a in spans for b in spans if a < b and a[0] == b[0] and b[1] < a[2]]

    assert len(pairs) == 2  # of each instrumentation
    assert [each["list"][:2] for each in REVIEWED["both-parallel"]["totals"]] == [[4, 450]]


@pytest.mark.parametrize("client", [each for each in fields.CLIENTS if REVIEWED[each]["agent"]])
def test_an_agent_has_the_model_calls_below_it(client):
    tokens = sum(each["list"][1] for each in REVIEWED[client]["totals"])
    if client in STREAMS_OUTSIDE:
        tokens -= 150

    assert sum(of_agent for _, _, of_agent in REVIEWED[client]["agents"]) == tokens


def test_every_recorded_client_has_a_quick_start_page():
    pages = " ".join(page.read_text("utf-8") for page in (DOCS / "start").glob("*.md"))

    named = set(re.findall(r"`([a-z0-9-]+)`", pages))
    assert [each for each in fields.CLIENTS if each not in named and "both-" not in each] == []


def test_every_quick_start_page_is_linked_from_the_readme():
    readme = (DOCS.parent / "README.md").read_text("utf-8")

    names = [f"docs/start/{page.name}" for page in (DOCS / "start").glob("*.md")]
    assert [name for name in names if name not in readme] == []
