"""One conversation, the same content: from the SDK's events and from every recorded dialect."""

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from langchain_openai import ChatOpenAI

from tests.collector.query.content.recorded import contents
from tests.sdk.clients.reading import LLM
from tests.sdk.clients.standin import Reply
from tests.support import talk
from tracereel.integrations import anthropic as anthropic_integration
from tracereel.integrations import google as google_integration
from tracereel.integrations import openai as openai_integration
from tracereel.integrations.langchain import TracereelHandler
from tracereel_collector.query.content.from_events import content_of_events

WHOLE = {"parallel": True}
RECORDED = {
    # Recording and span; what that package sends of thinking and images.
    ("genai-anthropic", "chat claude-sonnet-4-5"): {"thinking": True},
    ("genai-langchain", "chat gpt-4o-mini"): {},
    ("genai-openai", "chat gpt-4o-mini"): {},
    ("laminar", "openai.chat"): {"thinking": True},
    ("langfuse", "OpenAI-generation"): {"image": False},
    ("langsmith", "ChatOpenAI"): {},
    ("logfire", "Chat Completion with {request_data[model]!r}"): {},
    ("logfire", "Responses API with {gen_ai.request.model!r}"): {},
    ("logfire", "Message with {request_data[model]!r}"): {"thinking": True},
    ("mlflow", "Completions"): {"image": False},
    ("openinference-anthropic", "messages.create"): {"thinking": True},
    ("openinference-langchain", "ChatOpenAI"): {},
    ("openinference-openai", "ChatCompletion"): {},
    ("openinference-openai", "Response"): {"thinking": True},
    ("openllmetry-anthropic", "anthropic.chat"): {"thinking": True},
    ("openllmetry-langchain", "ChatOpenAI.chat"): {},
    ("openllmetry-openai", "openai.chat"): {"image": False},
    ("openllmetry-openai", "openai.response"): {},
    ("otel-openai-messages", "chat gpt-4o-mini"): {},
    ("vercel", "ai.generateText.doGenerate"): {},
}
LOSSY = {
    # These packages leave out messages whose content is a list.
    ("otel-openai", "chat gpt-4o-mini"): {"picture"},
    ("otel-openai-events", "chat gpt-4o-mini"): {"picture"},
    # This one also the calls of tools.
    ("openlit", "chat gpt-4o-mini"): {"calls"},
}


def calls(store, recording, span):
    """Return the model calls of a recording by the name of their span."""
    found = [content for name, content in contents(store, recording) if name == span]
    assert found
    return found


@pytest.mark.parametrize(("recording", "span"), RECORDED)
def test_a_recorded_dialect_gives_the_conversation(store, recording, span):
    how = RECORDED[recording, span]

    for content in calls(store, recording, span):
        assert talk.shown(content, **how) == talk.expected(**how)
        assert content.usage.input == 820
        assert content.usage.output == 40


def test_results_in_googles_objects_are_kept_as_sent(store):
    (content,) = calls(store, "openinference-google", "GenerateContent")

    found = talk.shown(content, thinking=True)

    wrapped = [
        (role, *[("result", {"result": each[1]}) if _is_plain(each) else each for each in said])
        for role, *said in talk.expected(thinking=True)
    ]
    assert found == wrapped


def _is_plain(said):
    return said[0] == "result" and not isinstance(said[1], dict)


@pytest.mark.parametrize(("recording", "span"), LOSSY)
def test_what_a_package_leaves_out_does_not_hinder_the_rest(store, recording, span):
    without = LOSSY[recording, span]
    (content,) = calls(store, recording, span)

    found = [each for each in talk.shown(content, image=False) if len(each) > 1]

    expected = [
        each
        for each in talk.expected(image=False)
        if not ("picture" in without and each[1] == ("text", "What is on this picture?"))
        and not ("calls" in without and each[1][0] == "call")
    ]
    assert found == expected


def sdk_call(events):
    """Return the content of the only model call that the SDK recorded."""
    (call,) = events.get_events(LLM)
    return content_of_events("llm", [*events.get_events("agent.message.normalized"), call])


def test_calls_of_openais_wrapped_client_give_the_conversation(standin, events):
    client = openai_integration.wrap(openai.OpenAI(api_key="k", base_url=f"{standin.url}/v1"))
    standin.will(Reply(answer=talk.answer_of_chat()))
    with client:
        client.chat.completions.create(model="m", messages=talk.chat(), tools=talk.chat_tools())

    assert talk.shown(sdk_call(events)) == talk.expected()


def test_responses_of_openais_wrapped_client_give_the_conversation(standin, events):
    client = openai_integration.wrap(openai.OpenAI(api_key="k", base_url=f"{standin.url}/v1"))
    standin.will(Reply(answer=talk.answer_of_responses()))
    with client:
        client.responses.create(model="m", instructions=talk.SYSTEM, input=talk.responses())

    assert talk.shown(sdk_call(events)) == talk.expected()


def test_calls_of_anthropics_wrapped_client_give_the_conversation(standin, events):
    standin.will(Reply(answer=talk.answer_of_anthropic()))
    with anthropic.Anthropic(api_key="k", base_url=standin.url) as client:
        anthropic_integration.wrap(client).messages.create(
            model="m", max_tokens=100, system=talk.SYSTEM, messages=talk.anthropic()
        )

    content = sdk_call(events)

    assert talk.shown(content) == talk.expected()
    assert (content.usage.input, content.usage.cache_read) == (820, 512)


def test_calls_of_googles_wrapped_client_give_the_conversation(standin, events):
    http = types.HttpOptions(base_url=standin.url)
    client = google_integration.wrap(genai.Client(api_key="k", http_options=http))
    standin.will(Reply(answer=talk.answer_of_google()))
    config = types.GenerateContentConfig(system_instruction=talk.SYSTEM)
    client.models.generate_content(model="m", contents=talk.google(), config=config)

    assert talk.shown(sdk_call(events)) == talk.expected()


def test_calls_of_langchain_give_the_conversation(standin, events):
    model = ChatOpenAI(model="m", api_key="k", base_url=f"{standin.url}/v1")
    standin.will(Reply(answer=talk.answer_of_chat()))
    model.invoke(talk.langchain(), config={"callbacks": [TracereelHandler()]})

    assert talk.shown(sdk_call(events)) == talk.expected()
