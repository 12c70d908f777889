"""Recordings of agents with tools, for `record_talk.py`; run by hand only."""

import os

from tests.clients import standin
from tests.support import talk

LATEST = {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
}


class Kept:
    """Spans and log records in memory."""

    def __init__(self):
        from opentelemetry import _logs, trace
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import (
            InMemoryLogRecordExporter,
            SimpleLogRecordProcessor,
        )
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        resource = Resource({"service.name": "recorder"})
        self.spans, self.logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
        self.tracer_provider = TracerProvider(resource=resource)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.logger_provider = LoggerProvider(resource=resource)
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self.logs))
        trace.set_tracer_provider(self.tracer_provider)
        _logs.set_logger_provider(self.logger_provider)

    def requests(self):
        from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        logs = self.logs.get_finished_logs()
        return (
            [encode_spans(self.spans.get_finished_spans()).SerializeToString()],
            [encode_logs(logs).SerializeToString()] if logs else [],
        )


def pydantic_ai(server):
    """Record pydantic-ai's own instrumentation, with a tool that is called."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    standin.ROUTES["/v1/chat/completions"] = standin.chat
    kept = Kept()
    Agent.instrument_all()
    provider = OpenAIProvider(base_url=f"{server.url}/v1", api_key="x")
    agent = Agent(
        OpenAIChatModel("gpt-4o-mini", provider=provider),
        instructions="You are brief.",
        name="guide",
    )

    @agent.tool_plain
    def get_weather(city: str) -> dict:
        return {"sky": "sunny"}

    agent.run_sync("What is the weather in Lima?")
    return kept.requests()


def openai_agents(instrument):
    """Record OpenAI's Agents SDK with a tool that is called."""

    def record(server):
        import openai
        from agents import Agent, Runner, function_tool, set_default_openai_client

        standin.ROUTES["/v1/responses"] = standin.responses
        finish = instrument()
        client = openai.AsyncOpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0)
        set_default_openai_client(client, use_for_tracing=False)

        @function_tool
        def get_weather(city: str) -> str:
            """The weather in a city."""
            return "sunny"

        agent = Agent(
            name="guide", instructions="You are brief.", model="gpt-4o-mini", tools=[get_weather]
        )
        Runner.run_sync(agent, "What is the weather in Lima?")
        return finish()

    return record


def openinference_agents():
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    kept = Kept()
    OpenAIAgentsInstrumentor().instrument(tracer_provider=kept.tracer_provider)
    return kept.requests


def logfire_agents():
    os.environ["LOGFIRE_IGNORE_NO_CONFIG"] = "1"
    import logfire
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    logfire.configure(
        send_to_logfire=False,
        console=False,
        service_name="recorder",
        additional_span_processors=[SimpleSpanProcessor(exporter)],
    )
    logfire.instrument_openai_agents()
    return lambda: ([encode_spans(exporter.get_finished_spans()).SerializeToString()], [])


def smolagents(server):
    """Record OpenInference's instrumentation of smolagents' tools."""
    from openinference.instrumentation.smolagents import SmolagentsInstrumentor
    from smolagents import Tool

    kept = Kept()

    class Climate(Tool):
        name = "climate"
        description = "The climate of a city."
        inputs = {  # noqa: RUF012 - as smolagents wants it
            "city": {"type": "string", "description": "Where"},
            "month": {"type": "integer", "description": "When"},
        }
        output_type = "object"

        def forward(self, city: str, month: int):
            return {"mean": 17, "sky": "cloudy"}

    SmolagentsInstrumentor().instrument(tracer_provider=kept.tracer_provider)
    Climate()(**talk.CLIMATE)
    return kept.requests()


def adk(server):
    """Record Google's Agent Development Kit with a tool that is called."""
    import asyncio

    from google.adk.agents import Agent
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    standin.ROUTES["/v1/chat/completions"] = standin.chat
    os.environ.update(LATEST, ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS="true")
    kept = Kept()

    def get_weather(city: str) -> dict:
        """The weather in a city."""
        return {"sky": "sunny"}

    model = LiteLlm(model="openai/gpt-4o-mini", api_base=f"{server.url}/v1", api_key="x")
    agent = Agent(name="guide", model=model, instruction="You are brief.", tools=[get_weather])

    async def run():
        runner = InMemoryRunner(agent=agent, app_name="recorder")
        session = await runner.session_service.create_session(app_name="recorder", user_id="u")
        asked = types.Content(role="user", parts=[types.Part(text="What is the weather in Lima?")])
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=asked):
            pass

    asyncio.run(run())
    return kept.requests()
