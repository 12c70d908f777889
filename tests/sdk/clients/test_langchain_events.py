"""LangChain's `astream_events` of real models over HTTP, read by our adapter."""

import asyncio

import openai
import pytest
from langchain_anthropic import ChatAnthropic
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from msgspec import structs

from tracereel.providers import BatchResultNormalizer, adapter_for


def real_model(kind, url):
    """Return a provider's model and its client, which belongs to this test."""
    if kind == "anthropic":
        # LangChain keeps one client for each address.
        model = ChatAnthropic(model="claude-test", api_key="k", base_url=f"{url}/")
        return model, model._async_client
    options = {"api_key": "k", "http_async_client": openai.DefaultAsyncHttpxClient()}
    if kind == "azure_openai":
        options |= {"azure_deployment": "gpt-test", "azure_endpoint": url}
        model = AzureChatOpenAI(api_version="2024-10-21", stream_usage=True, **options)
    else:
        options |= {"use_responses_api": kind == "responses", "stream_usage": True}
        model = ChatOpenAI(model="gpt-test", base_url=f"{url}/v1", **options)
    return model, model.root_async_client


@pytest.mark.filterwarnings("ignore:Received unexpected tool content block")
@pytest.mark.parametrize("kind", ["anthropic", "openai", "responses", "azure_openai"])
def test_the_events_of_a_real_stream_give_the_result_of_the_whole_answer(kind, standin):
    adapter = adapter_for("langchain")

    async def both():
        model, client = real_model(kind, standin.url)
        async with client:
            whole = await model.ainvoke("Weather in Lima?")
            async for event in model.astream_events("Weather in Lima?", version="v2"):
                adapter.process_chunk(event)
        adapter.finish()
        return whole

    whole = BatchResultNormalizer(keep_raw=False).normalize([asyncio.run(both())])

    def said(result):
        return [
            structs.replace(event, raw=None, message_id=None, message_index=None)
            for event in result.events
        ]

    assert said(adapter.result()) == said(whole)
    assert (adapter.result().usage, adapter.result().model) == (whole.usage, whole.model)
    assert whole.usage.output_tokens > 0
