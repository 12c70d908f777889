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
sys.path.insert(0, str(ROOT))
from tests.clients import standin  # noqa: E402
from tests.collector.query.content.record_agents import (  # noqa: E402
    LATEST,
    Kept,
    adk,
    logfire_agents,
    openai_agents,
    openinference_agents,
    pydantic_ai,
    smolagents,
)
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


def vercel(server):
    """Record the npm package `ai`; needs Node and TRACEREEL_NODE_MODULES."""
    folder = Path(os.environ["TRACEREEL_NODE_MODULES"]).parent
    (folder / "record_talk.mjs").write_text((HERE.parent / "record_talk.mjs").read_text())
    given = {"system": talk.SYSTEM, "messages": talk.vercel()}
    (folder / "talk.json").write_text(json.dumps(given))
    subprocess.run(["node", str(folder / "record_talk.mjs"), server.url], check=True, cwd=folder)
    return server.received, []


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
