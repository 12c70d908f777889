"""Tools, agents and facts of recorded dialects."""

import json

import pytest

from tests.collector.query.content.recorded import NAMES, contents, stored
from tests.support import talk

CLIMATE = {"mean": 17, "sky": "cloudy"}
WEATHER = {"city": "Lima"}
TOOLS = {
    ("genai-langchain", "execute_tool climate"): (talk.CLIMATE, CLIMATE),
    ("laminar", "climate"): (talk.CLIMATE, CLIMATE),
    ("langsmith", "climate"): (talk.CLIMATE, CLIMATE),
    ("mlflow", "climate"): (talk.CLIMATE, CLIMATE),
    ("openinference-agents", "get_weather"): (WEATHER, "sunny"),
    ("openinference-langchain", "climate"): (talk.CLIMATE, CLIMATE),
    ("openinference-smolagents", "Climate"): (talk.CLIMATE, CLIMATE),
    ("openllmetry-langchain", "execute_tool climate"): (talk.CLIMATE, CLIMATE),
    ("pydantic-ai", "execute_tool get_weather"): (WEATHER, {"sky": "sunny"}),
    ("adk", "execute_tool get_weather"): (WEATHER, {"sky": "sunny"}),
}
AGENTS = {
    ("adk", "invoke_agent guide"): ("What is the weather in Lima?", "It is sunny in Lima."),
    ("openinference-agents", "guide"): ("What is the weather in Lima?", "It is sunny in Lima."),
    ("pydantic-ai", "invoke_agent guide"): ("What is the weather in Lima?", "It is sunny in Lima."),
    ("openinference-langchain", "travel"): ("Summarise, please.", talk.ANSWER),
    ("openllmetry-langchain", "travel.workflow"): ("Summarise, please.", talk.ANSWER),
    ("openllmetry-langchain", "invoke_agent travel"): (None, None),
}
OFFERED = (
    *("genai-anthropic", "genai-langchain", "genai-openai", "laminar", "langfuse", "langsmith"),
    *("logfire", "mlflow", "openinference-anthropic", "openinference-google"),
    *("openinference-langchain", "openinference-openai", "openllmetry-anthropic"),
    *("openllmetry-langchain", "openllmetry-openai"),
)


def only(store, recording, span):
    """Return the first step of a recording by the name of its span."""
    return next(content for name, content in contents(store, recording) if name == span)


@pytest.mark.parametrize(("recording", "span"), TOOLS)
def test_a_tool_has_the_arguments_and_result_of_its_call(store, recording, span):
    content = only(store, recording, span)

    assert content.kind == "tool"
    assert (content.arguments, content.result) == TOOLS[recording, span]


@pytest.mark.parametrize(("recording", "span"), AGENTS)
def test_an_agent_names_question_and_answer(store, recording, span):
    content = only(store, recording, span)

    assert content.kind == "value"
    assert (content.asked, content.answered) == AGENTS[recording, span]


@pytest.mark.parametrize("recording", OFFERED)
def test_offered_tools_are_listed_with_their_schema(store, recording):
    found = [content for _, content in contents(store, recording) if content.kind == "model"]

    (call, *_) = found
    assert [tool.name for tool in call.tools] == list(talk.TOOLS)
    assert all(tool.parameters for tool in call.tools)


@pytest.mark.parametrize("recording", ["genai-openai", "logfire", "openinference-openai", "vercel"])
def test_request_options_are_read(store, recording):
    found = [content for _, content in contents(store, recording) if content.kind == "model"]

    assert found[0].parameters["temperature"] == 0.2


@pytest.mark.parametrize("recording", ["adk", "pydantic-ai", "openinference-agents"])
def test_the_second_call_of_an_agent_names_the_messages_of_the_first(store, recording):
    first, second = [each for _, each in contents(store, recording) if each.kind == "model"]

    assert first.earlier == 0
    assert second.earlier == len(first.input) + len(first.output)
    assert second.earlier_step is not None


@pytest.mark.parametrize("recording", NAMES)
def test_every_recorded_span_has_content_of_some_kind(store, recording):
    assert contents(store, recording)


def test_an_agent_of_logfire_without_a_group_is_of_no_session(store):
    tenant, _ = stored(store, "logfire-agents")

    found = store.select(
        "SELECT groupUniqArray(SessionId) FROM otel_spans WHERE TenantId = {tenant:String}",
        {"tenant": tenant},
        fmt="JSONCompactEachRow",
    )
    assert json.loads(found) == [[""]]
