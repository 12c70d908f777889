"""Records what instrumentation packages send for one conversation; run by hand only.

    python3 -m venv V && V/bin/pip install openai openinference-instrumentation-openai …
    V/bin/python tests/collector/query/content/record_talk.py openinference-openai

Each recording makes the last call of `tests/support/talk.py` with the provider's real client against a
stand-in server, and writes `recordings/<name>.json`: OTLP requests for spans and log records as JSON,
and the versions of the packages.
"""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[4]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "collector" / "store" / "dialects")]
import standin  # noqa: E402

from tests.support import talk  # noqa: E402

HERE = Path(__file__).parent / "recordings"
KEPT = ("service.name",)
GOOGLE = "/v1/models/gemini-2.5-flash:generateContent"


class Server(standin.StandIn):
    """Server that gives the last answer of the conversation in every provider's form."""

    def __init__(self):
        standin.ROUTES.update(
            {
                "/v1/chat/completions": lambda _: talk.answer_of_chat(),
                "/v1/responses": lambda _: talk.answer_of_responses(),
                "/v1/messages": lambda _: talk.answer_of_anthropic(),
                GOOGLE: lambda _: talk.answer_of_google(),
            }
        )
        super().__init__()


def openai_client(server):
    import openai

    return openai.OpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0)


def chat(server, client=None):
    """Call OpenAI's chat completions."""
    (client or openai_client(server)).chat.completions.create(
        model="gpt-4o-mini", messages=talk.chat(), tools=talk.chat_tools(), temperature=0.2
    )


def chat_without_image(server):
    """The same for a package that fails with inline images and then sends no messages."""
    messages = [
        {**each, "content": each["content"][0]["text"]} if type(each["content"]) is list else each
        for each in talk.chat()
    ]
    openai_client(server).chat.completions.create(
        model="gpt-4o-mini", messages=messages, tools=talk.chat_tools(), temperature=0.2
    )


def responses(server, client=None):
    """Call OpenAI's Responses API."""
    (client or openai_client(server)).responses.create(
        model="gpt-4o-mini",
        instructions=talk.SYSTEM,
        input=talk.responses(),
        tools=talk.responses_tools(),
        temperature=0.2,
    )


def anthropic(server):
    """Call Anthropic."""
    from anthropic import Anthropic

    Anthropic(api_key="x", base_url=server.url, max_retries=0).messages.create(
        model="claude-sonnet-4-5",
        max_tokens=2048,
        system=talk.SYSTEM,
        messages=talk.anthropic(),
        tools=talk.anthropic_tools(),
        thinking={"type": "enabled", "budget_tokens": 1024},
    )


def google(server):
    """Call Google."""
    from google import genai

    client = genai.Client(api_key="x", http_options={"base_url": server.url})
    client.models.generate_content(
        model="gemini-2.5-flash",
        contents=talk.google(),
        config={
            "system_instruction": talk.SYSTEM,
            "temperature": 0.2,
            "tools": talk.google_tools(),
            "automatic_function_calling": {"disable": True},
        },
    )


def langchain(server):
    """Call OpenAI with LangChain's chat model."""
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        model="gpt-4o-mini",
        api_key="x",
        base_url=f"{server.url}/v1",
        max_retries=0,
        temperature=0.2,
    )
    model.bind_tools(talk.chat_tools()).invoke(talk.langchain())


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


def instrumented(instrumentor, *calls, **environ):
    """Record a package that patches a client."""
    module, _, name = instrumentor.partition(":")

    def record(server):
        os.environ.update(environ)
        kept = Kept()
        made = getattr(__import__(module, fromlist=[name]), name)()
        made.instrument(tracer_provider=kept.tracer_provider, logger_provider=kept.logger_provider)
        for call in calls:
            call(server)
        return kept.requests()

    return record


def logfire(*instruments_and_calls):
    """Record Logfire."""

    def record(server):
        os.environ["LOGFIRE_IGNORE_NO_CONFIG"] = "1"
        import logfire
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        exporter = InMemorySpanExporter()
        logfire.configure(
            send_to_logfire=False,
            console=False,
            service_name="recorder",
            additional_span_processors=[SimpleSpanProcessor(exporter)],
        )
        for instrument, call in instruments_and_calls:
            getattr(logfire, f"instrument_{instrument}")()
            call(server)
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        return [encode_spans(exporter.get_finished_spans()).SerializeToString()], []

    return record


def langfuse(server):
    """Record the Langfuse SDK's wrapper of OpenAI's client."""
    os.environ.update(LANGFUSE_PUBLIC_KEY="pk", LANGFUSE_SECRET_KEY="sk", LANGFUSE_HOST=server.url)
    os.environ["LANGFUSE_BASE_URL"] = server.url
    from langfuse import get_client
    from langfuse.openai import openai

    client = openai.OpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0)
    chat(server, client)
    responses(server, client)
    get_client().flush()
    return server.received, []


def laminar(server):
    """Record Laminar, which exports over HTTP to the stand-in."""
    from lmnr import Laminar, observe

    port = server.server_port
    Laminar.initialize(
        project_api_key="x", base_url="http://127.0.0.1", http_port=port, force_http=True
    )

    @observe(span_type="TOOL", name="climate")
    def climate(city, month):
        return {"mean": 17, "sky": "cloudy"}

    chat(server)
    climate(**talk.CLIMATE)
    Laminar.flush()
    return server.received, []


def langsmith(server):
    """Record LangSmith's OpenTelemetry export of LangChain."""
    os.environ.update(
        LANGSMITH_OTEL_ENABLED="true", LANGSMITH_OTEL_ONLY="true", LANGSMITH_TRACING="true"
    )
    os.environ.update(LANGSMITH_API_KEY="x", LANGSMITH_ENDPOINT=server.url)
    kept = Kept()
    from langchain_core.tools import tool

    @tool
    def climate(city: str, month: int) -> dict:
        """The climate of a city."""
        return {"mean": 17, "sky": "cloudy"}

    langchain(server)
    climate.invoke(talk.CLIMATE)
    from langchain_core.tracers.langchain import wait_for_all_tracers

    wait_for_all_tracers()
    return kept.requests()


def mlflow(server):
    """Record MLflow's autologging of OpenAI's client, exported over OTLP."""
    os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{server.url}/v1/traces"
    os.environ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "http/protobuf"
    import mlflow

    mlflow.openai.autolog()

    @mlflow.trace(span_type="TOOL")
    def climate(city, month):
        return {"mean": 17, "sky": "cloudy"}

    chat(server)
    climate(**talk.CLIMATE)
    from mlflow.tracing import provider

    for processor in provider.provider.get()._active_span_processor._span_processors:
        processor.force_flush()
    return server.received, []


def openlit(server):
    """Record OpenLIT."""
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = server.url
    import openlit

    openlit.init(application_name="recorder", disable_batch=True, disable_metrics=True)
    chat(server)
    return server.received, []


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


def langchain_tool(server):
    """Call a tool of LangChain, as an agent does."""
    from langchain_core.tools import tool

    @tool
    def climate(city: str, month: int) -> dict:
        """The climate of a city."""
        return {"mean": 17, "sky": "cloudy"}

    climate.invoke({"type": "tool_call", "name": "climate", "id": "call_1", "args": talk.CLIMATE})


def langgraph(server):
    """Run a graph whose state is a list of messages."""
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    graph = StateGraph(MessagesState)
    graph.add_node("guide", lambda _: {"messages": [AIMessage(talk.ANSWER)]})
    graph.add_edge(START, "guide")
    graph.compile(name="travel").invoke({"messages": [("user", "Summarise, please.")]})


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


def vercel(server):
    """Record the npm package `ai`; needs Node and TRACEREEL_NODE_MODULES."""
    folder = Path(os.environ["TRACEREEL_NODE_MODULES"]).parent
    (folder / "record_talk.mjs").write_text((HERE.parent / "record_talk.mjs").read_text())
    given = {"system": talk.SYSTEM, "messages": talk.vercel()}
    (folder / "talk.json").write_text(json.dumps(given))
    subprocess.run(["node", str(folder / "record_talk.mjs"), server.url], check=True, cwd=folder)
    return server.received, []


LATEST = {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
}
IN_EVENTS = LATEST | {
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "EVENT_ONLY",
    "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT": "true",
}
V2 = "opentelemetry.instrumentation.openai_v2:OpenAIInstrumentor"
OI = "openinference.instrumentation"
RECORDINGS = {
    "openinference-openai": instrumented(f"{OI}.openai:OpenAIInstrumentor", chat, responses),
    "openinference-anthropic": instrumented(f"{OI}.anthropic:AnthropicInstrumentor", anthropic),
    "openinference-google": instrumented(f"{OI}.google_genai:GoogleGenAIInstrumentor", google),
    "openinference-langchain": instrumented(
        f"{OI}.langchain:LangChainInstrumentor", langchain, langchain_tool, langgraph
    ),
    "openinference-agents": openai_agents(openinference_agents),
    "openinference-smolagents": smolagents,
    "openllmetry-openai": instrumented(
        "opentelemetry.instrumentation.openai:OpenAIInstrumentor", chat_without_image, responses
    ),
    "openllmetry-anthropic": instrumented(
        "opentelemetry.instrumentation.anthropic:AnthropicInstrumentor", anthropic
    ),
    "openllmetry-langchain": instrumented(
        "opentelemetry.instrumentation.langchain:LangchainInstrumentor",
        *(langchain, langchain_tool, langgraph),
    ),
    "otel-openai": instrumented(V2, chat, **LATEST),
    "otel-openai-events": instrumented(V2, chat, **IN_EVENTS),
    "otel-openai-messages": instrumented(
        V2, chat, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true"
    ),
    "genai-openai": instrumented(
        "opentelemetry.instrumentation.genai.openai:OpenAIInstrumentor", chat, responses, **LATEST
    ),
    "genai-anthropic": instrumented(
        "opentelemetry.instrumentation.genai.anthropic:AnthropicInstrumentor", anthropic, **LATEST
    ),
    "genai-langchain": instrumented(
        "opentelemetry.instrumentation.genai.langchain:LangChainInstrumentor",
        *(langchain, langchain_tool),
        **LATEST,
    ),
    "logfire": logfire(("openai", chat), ("openai", responses), ("anthropic", anthropic)),
    "logfire-agents": openai_agents(logfire_agents),
    "langfuse": langfuse,
    "laminar": laminar,
    "langsmith": langsmith,
    "mlflow": mlflow,
    "openlit": openlit,
    "pydantic-ai": pydantic_ai,
    "adk": adk,
    "vercel": vercel,
}


def documents(bodies, kind):
    """Return OTLP requests as one JSON document, without data about the recording machine."""
    from google.protobuf.json_format import MessageToDict

    whole = kind()
    for body in bodies:
        whole.MergeFromString(body)
    for resource in [*getattr(whole, "resource_spans", ()), *getattr(whole, "resource_logs", ())]:
        kept = [each for each in resource.resource.attributes if each.key in KEPT]
        del resource.resource.attributes[:]
        resource.resource.attributes.extend(kept)
    return MessageToDict(whole)


def main():
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    (name,) = sys.argv[1:]
    spans, logs = RECORDINGS[name](Server())
    document = {"packages": versions(name), "spans": documents(spans, ExportTraceServiceRequest)}
    if logs:
        document["logs"] = documents(logs, ExportLogsServiceRequest)
    HERE.mkdir(exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False)
    (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"{name}: {len(text)} characters")


def versions(name):
    """Return the versions of the packages of a recording."""
    if name == "vercel":
        folder = Path(os.environ["TRACEREEL_NODE_MODULES"])
        return {"ai": json.loads((folder / "ai" / "package.json").read_text())["version"]}
    words = ("openinference", "openai", "anthropic", "google-genai", "langchain", "langgraph")
    words += ("opentelemetry-instrumentation", "logfire", "langfuse", "lmnr", "langsmith", "mlflow")
    words += ("openlit", "pydantic-ai", "google-adk", "smolagents", "opentelemetry-util-genai")
    loaded = {each.partition(".")[0].replace("_", "-") for each in sys.modules}
    found = {}
    for each in metadata.distributions():
        package = each.metadata["Name"].lower()
        first = package.partition("-")[0]
        if package.startswith(words) and (first in loaded or package in loaded):
            found[package] = each.version
    return dict(sorted(found.items()))


if __name__ == "__main__":
    main()
