"""pydantic-ai with real models over HTTP: recorded events."""

import asyncio

import openai
import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.sdk.clients.reading import LLM, only_call
from tests.sdk.clients.standin import BROKEN, error
from tracereel import current_execution, record_decision
from tracereel.integrations.openai import wrap
from tracereel.integrations.pydantic_ai import TracereelCapability

DONE = "agent.execution.completed"
FAILED = "agent.execution.failed"
TOOL = "agent.tool.called"


def ask(standin, capability, *, wrapped=False, streamed=False, retries=2):
    async def run():
        client = openai.AsyncOpenAI(api_key="k", base_url=f"{standin.url}/v1", max_retries=retries)
        if wrapped:
            wrap(client)
        model = OpenAIChatModel("gpt-test", provider=OpenAIProvider(openai_client=client))
        agent = Agent(model, name="forecaster", capabilities=[capability])

        @agent.tool_plain
        def get_weather(city: str) -> str:
            """The weather of a city."""
            record_decision("weather_source", reasoning="the only one")
            return f"sunny in {city}"

        try:
            if not streamed:
                return (await agent.run("Weather in Lima?")).output
            async with agent.run_stream("Weather in Lima?") as result:
                return await result.get_output()
        finally:
            await client.close()

    return asyncio.run(run())


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_an_agent_with_its_tools_and_model_calls(streamed, standin, events):
    assert ask(standin, TracereelCapability(), streamed=streamed) == "It is sunny in Lima."

    (done,) = events.get_events(DONE)
    assert done["agent_name"] == "forecaster"
    first, second = events.get_events(LLM)
    assert (first["agent_name"], second["agent_name"]) == ("forecaster", "forecaster")
    assert (first["llm_provider"], first["llm_model_requested"]) == ("openai", "gpt-test")
    assert (first["was_streamed"], second["was_streamed"]) == (streamed, streamed)
    assert done["llm_tokens_used"] == first["llm_tokens_used"] + second["llm_tokens_used"] > 0
    (call,) = events.get_events(TOOL)
    assert (call["tool_name"], call["tool_call_id"]) == ("get_weather", "call_1")
    assert first["tool_call_ids"] == ["call_1"]
    assert (call["arguments"], call["result"]) == ({"city": "Lima"}, "sunny in Lima")
    assert call["parent_span_id"] == first["parent_span_id"] == done["span_id"]
    (decision,) = events.get_events("agent.decision.recorded")
    assert decision["span_id"] == call["span_id"]
    assert not current_execution()


def test_call_recorded_by_handler_and_client_is_deduplicated(standin, events):
    standin.will(BROKEN)

    ask(standin, TracereelCapability(), wrapped=True)

    first, second = events.get_events(LLM)
    assert (first["retry_count"], second.get("retry_count")) == (1, None)


def test_a_model_that_fails_fails_the_agent(standin, events):
    standin.will(error(400, "no such thing", "invalid_request_error"))

    with pytest.raises(ModelHTTPError):
        ask(standin, TracereelCapability(), retries=0)

    assert only_call(events)["status"] == "failed"
    (failed,) = events.get_events(FAILED)
    assert failed["agent_name"] == "forecaster"


def test_nothing_is_recorded_once_it_is_off(standin, events):
    capability = TracereelCapability()
    capability.enabled = False

    ask(standin, capability)

    assert len(events) == 0
