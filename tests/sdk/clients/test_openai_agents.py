"""OpenAI's Agents SDK with real models over HTTP: recorded traces."""

import asyncio

import openai
import pytest
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool

from tests.sdk.clients.reading import LLM, only_call
from tests.sdk.clients.standin import error
from tracereel import record_decision
from tracereel.integrations.openai import wrap
from tracereel.integrations.openai_agents import instrument, uninstrument

DONE = "agent.execution.completed"
FAILED = "agent.execution.failed"
TOOL = "agent.tool.called"


@pytest.fixture
def instrumented(events, own_agents_tracing):
    instrument()
    instrument()
    yield events
    uninstrument()


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    record_decision("weather_source", reasoning="the only one")
    return f"sunny in {city}"


def ask(standin, kind, *, wrapped=False, streamed=False, retries=2):
    async def run():
        client = openai.AsyncOpenAI(api_key="k", base_url=f"{standin.url}/v1", max_retries=retries)
        if wrapped:
            wrap(client)
        agent = Agent(
            name="forecaster",
            model=kind(model="gpt-test", openai_client=client),
            tools=[get_weather],
        )
        try:
            if not streamed:
                return (await Runner.run(agent, "Weather in Lima?")).final_output
            result = Runner.run_streamed(agent, "Weather in Lima?")
            async for _ in result.stream_events():
                pass
            return result.final_output
        finally:
            await client.close()

    return asyncio.run(run())


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
def test_an_agent_with_its_tools_and_model_calls(kind, streamed, standin, instrumented):
    events = instrumented

    assert ask(standin, kind, streamed=streamed)

    (done,) = events.get_events(DONE)
    assert done["agent_name"] == "forecaster"
    calls = events.get_events(LLM)
    assert {call["agent_name"] for call in calls} == {"forecaster"}
    assert all(call["llm_tokens_used"] for call in calls)
    assert all(call["input_messages"] for call in calls)
    assert done["llm_tokens_used"] == sum(call["llm_tokens_used"] for call in calls)
    (call,) = events.get_events(TOOL)
    assert (call["tool_name"], call["arguments"]) == ("get_weather", {"city": "Lima"})
    assert call["result"] == "sunny in Lima"
    assert call["parent_span_id"] == done["span_id"]
    (decision,) = events.get_events("agent.decision.recorded")
    assert decision["span_id"] == call["span_id"]


def test_call_recorded_by_handler_and_client_is_deduplicated(standin, instrumented):
    ask(standin, OpenAIResponsesModel)
    once = len(instrumented.get_events(LLM))
    instrumented.clear()

    ask(standin, OpenAIResponsesModel, wrapped=True)

    assert len(instrumented.get_events(LLM)) == once


def test_a_model_that_fails_fails_the_agent(standin, instrumented):
    standin.will(error(400, "no such thing", "invalid_request_error"))

    with pytest.raises(openai.BadRequestError):
        ask(standin, OpenAIResponsesModel, retries=0)

    assert only_call(instrumented)["status"] == "failed"


def test_nothing_is_recorded_after_uninstrument(standin, instrumented):
    uninstrument()

    ask(standin, OpenAIResponsesModel)

    assert len(instrumented) == 0
