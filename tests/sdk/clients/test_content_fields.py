"""Every client records the tools that it offers, its options and what was sent and answered."""

import json

import anthropic
import openai
import pytest
from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel
from google import genai
from google.genai import types
from langchain_openai import ChatOpenAI

from tests.sdk.clients import test_openai_agents, test_pydantic_ai
from tests.sdk.clients.reading import LLM, only_call
from tests.sdk.clients.standin import Reply
from tests.sdk.clients.test_langchain import get_weather
from tests.sdk.clients.test_openai_agents import instrumented as instrumented
from tracereel import current_execution, traced_agent, traced_llm, traced_pipeline, traced_step
from tracereel.integrations import anthropic as anthropic_hooks
from tracereel.integrations import google as google_hooks
from tracereel.integrations import openai as openai_hooks
from tracereel.integrations.langchain import TracereelHandler
from tracereel.integrations.pydantic_ai import TracereelCapability
from tracereel.testing import EventRecorder

ASKED = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi"},
    {"role": "user", "content": [{"type": "text", "text": "Weather in Lima?"}]},
]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.fixture
def openai_client(standin):
    with openai.OpenAI(api_key="k", base_url=f"{standin.url}/v1") as made:
        yield openai_hooks.wrap(made)


@pytest.fixture
def anthropic_client(standin):
    with anthropic.Anthropic(api_key="k", base_url=standin.url) as made:
        yield anthropic_hooks.wrap(made)


def test_a_chat_completion_has_its_tools_and_options(openai_client, events):
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
    form = {"type": "json_object"}
    openai_client.chat.completions.create(
        model="m",
        messages=ASKED,
        tools=tools,
        temperature=0.2,
        top_p=0.9,
        max_completion_tokens=64,
        response_format=form,
        tool_choice="auto",
        reasoning_effort="low",
    )

    call = only_call(events)
    assert call["tool_definitions"] == tools
    assert call["request_parameters"] == {
        "temperature": 0.2,
        "top_p": 0.9,
        "max_completion_tokens": 64,
        "response_format": form,
        "tool_choice": "auto",
        "reasoning_effort": "low",
    }
    assert call["input_summary"] == "Weather in Lima?"
    assert call["output_summary"] == "get_weather"
    assert call["tokens_per_second"] > 0


def test_a_response_has_its_tools_and_options(openai_client, events):
    tools = [{"type": "function", "name": "get_weather", "parameters": SCHEMA}]
    openai_client.responses.create(
        model="m", input="Weather?", instructions="Be brief.", tools=tools, temperature=0.5
    )

    call = only_call(events)
    assert call["tool_definitions"] == tools
    assert call["request_parameters"] == {"temperature": 0.5}
    assert (call["input_summary"], call["output_summary"]) == ("Weather?", "get_weather")


def test_a_legacy_completion_has_its_text_and_its_end(openai_client, standin, events):
    said = {"index": 0, "text": "sunny", "finish_reason": "stop", "logprobs": None}
    answer = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m"}
    body = json.dumps({**answer, "choices": [said]}).encode()
    standin.will(Reply(body=body, headers={"content-type": "application/json"}))
    openai_client.completions.create(model="m", prompt="Weather?", max_tokens=9)

    call = only_call(events)
    assert call["input_messages"] == ["Weather?"]
    assert (call["output_messages"], call["output_summary"]) == (["sunny"], "sunny")
    assert call["finish_reason"] == "stop"
    assert call["request_parameters"] == {"max_tokens": 9}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "stream"])
def test_a_message_has_its_tools_options_and_all_usage(streamed, anthropic_client, events):
    tools = [{"name": "get_weather", "input_schema": SCHEMA}]
    answer = anthropic_client.messages.create(
        model="m",
        max_tokens=99,
        system="Be brief.",
        messages=ASKED,
        tools=tools,
        tool_choice={"type": "auto"},
        stop_sequences=["END"],
        stream=streamed,
    )
    if streamed:
        list(answer)

    call = only_call(events)
    assert call["tool_definitions"] == tools
    assert call["request_parameters"] == {
        "max_tokens": 99,
        "tool_choice": {"type": "auto"},
        "stop_sequences": ["END"],
    }
    assert call["input_summary"] == "Weather in Lima?"
    assert call["output_summary"]
    assert call["finish_reason"] == "tool_use"
    for name in ("llm_cached_tokens", "llm_cache_creation_tokens", "tokens_per_second"):
        assert call[name] is not None, name
    assert (call["time_to_first_token_ms"] is not None) is streamed


def test_generated_content_has_its_tools_and_options(standin, events):
    http = types.HttpOptions(base_url=standin.url)
    client = google_hooks.wrap(genai.Client(api_key="k", http_options=http))
    declared = types.FunctionDeclaration(name="get_weather", parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(
        temperature=0.3,
        max_output_tokens=70,
        system_instruction="Be brief.",
        tools=[types.Tool(function_declarations=[declared])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    client.models.generate_content(model="gemini", contents="Weather in Lima?", config=config)

    call = only_call(events)
    (tool,) = call["tool_definitions"]
    assert tool["functionDeclarations"][0]["name"] == "get_weather"
    assert call["request_parameters"] == {"temperature": 0.3, "maxOutputTokens": 70}
    assert call["input_summary"] == "Weather in Lima?"
    assert call["output_summary"]
    assert call["tokens_per_second"] > 0


def test_a_model_of_langchain_has_its_tools_and_options(standin, events):
    with openai.DefaultHttpxClient() as http:
        model = ChatOpenAI(
            model="m", api_key="k", base_url=f"{standin.url}/v1", temperature=0.1, http_client=http
        )
        bound = model.bind_tools([get_weather], tool_choice="auto")
        bound.invoke("Weather in Lima?", {"callbacks": [TracereelHandler()]}, stop=["END"])

    call = only_call(events)
    assert [each["function"]["name"] for each in call["tool_definitions"]] == ["get_weather"]
    assert call["request_parameters"]["temperature"] == 0.1
    assert call["request_parameters"]["stop"] == ["END"]
    assert call["request_parameters"]["tool_choice"] == "auto"
    assert call["input_summary"] == "Weather in Lima?"
    assert call["output_summary"] == "get_weather"


def test_an_agent_of_pydantic_ai_has_tools_input_and_output(standin, events):
    test_pydantic_ai.ask(standin, TracereelCapability())

    first, second = events.get_events(LLM)
    assert [each["name"] for each in first["tool_definitions"]] == ["get_weather"]
    assert (first["input_summary"], first["output_summary"]) == ("Weather in Lima?", "get_weather")
    assert second["output_summary"] == "It is sunny in Lima."
    (began,) = events.get_events("agent.execution.started")
    (done,) = events.get_events("agent.execution.completed")
    assert (began["input"], done["output"]) == (
        {"prompt": "Weather in Lima?"},
        "It is sunny in Lima.",
    )


@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "wrapped client"])
@pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
def test_an_agent_of_openai_has_tools_and_output(kind, wrapped, standin, instrumented):
    test_openai_agents.ask(standin, kind, wrapped=wrapped)

    calls = instrumented.get_events(LLM)
    assert calls[0]["input_summary"] == "Weather in Lima?"
    assert calls[0]["output_summary"] == "get_weather"
    if wrapped or kind is OpenAIResponsesModel:  # else the SDK does not say which tools it offers
        assert len(calls[0]["tool_definitions"]) == 1
    (done,) = instrumented.get_events("agent.execution.completed")
    assert "It is sunny in Lima." in done["output_summary"]
    assert len(done["output"]) == 1


def test_a_traced_function_has_its_tools_options_and_speed(events):
    @traced_llm("m")
    def ask(messages, tools, temperature=0.4, client=None):
        current_execution().set(llm_completion_tokens=10, llm_cache_creation_tokens=3)
        return {"role": "assistant", "tool_calls": [{"name": "search", "args": {}}]}

    ask(ASKED, [{"name": "search"}], client=object())

    call = only_call(events)
    assert call["tool_definitions"] == [{"name": "search"}]
    assert call["request_parameters"] == {"temperature": 0.4}
    assert (call["input_summary"], call["output_summary"]) == ("Weather in Lima?", "search")
    assert call["llm_cache_creation_tokens"] == 3


def test_a_traced_function_has_what_its_client_sent(openai_client, events):
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]

    @traced_llm("m")
    def ask(question):
        sent = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
        create = openai_client.chat.completions.create
        return create(model="m", messages=sent, tools=tools, top_p=0.5).choices[0].message

    ask("Weather?")

    call = only_call(events)
    assert [each["content"] for each in call["input_messages"]] == ["Be brief.", "Weather?"]
    assert call["tool_definitions"] == tools
    assert call["request_parameters"] == {"top_p": 0.5}
    assert (call["input_summary"], call["output_summary"]) == ("Weather?", "get_weather")
    assert call["finish_reason"] == "tool_calls"


def test_inputs_and_outputs_are_whole_whatever_the_arguments_are_called(events):
    long = "word " * 5000

    @traced_step("check")
    def check(thing, *, options):
        return {"checked": thing, **options}

    @traced_agent("a")
    def agent(whatever, ctx):
        return check(whatever, options={"n": [1, 2]})

    @traced_pipeline("p")
    def pipeline(*questions):
        return [agent(each, object()) for each in questions]

    pipeline(long, "short")

    (began,) = events.get_events("agent.pipeline.started")
    (done,) = events.get_events("agent.pipeline.completed")
    outputs = [{"checked": each, "n": [1, 2]} for each in (long, "short")]
    assert began["input"] == {"arg0": long, "arg1": "short"}
    assert done["output"] == outputs
    agents = events.get_events("agent.execution.started")
    assert [each["input"] for each in agents] == [
        {"whatever": long, "ctx": "<object>"},
        {"whatever": "short", "ctx": "<object>"},
    ]
    completed = events.get_events("agent.execution.completed")
    assert [each["output"] for each in completed] == outputs
    steps = events.get_events("agent.step.completed")
    assert steps[0]["input"] == {"thing": long, "options": {"n": [1, 2]}}
    assert [each["output"] for each in steps] == outputs
    assert all(len(each["output_summary"]) <= 200 for each in (done, *completed, *steps))


def test_without_content_no_new_field_has_a_value():
    @traced_agent("a")
    def agent(question):
        return ask(question)

    @traced_llm("m")
    def ask(prompt, tools=("t",), temperature=0.1):
        return prompt

    with EventRecorder(capture_content=False) as events:
        agent("secret words")
    names = ("input", "output", "tool_definitions", "request_parameters")
    for event in events:
        assert not any(event.get(name) for name in names)
        assert "secret words" not in str(event)
