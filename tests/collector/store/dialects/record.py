"""Records the spans of real instrumentation packages for the golden tests; run by hand only.

    python3 -m venv V && V/bin/pip install openai openinference-instrumentation-openai …
    V/bin/python tests/collector/store/dialects/record.py openinference-openai

Each recording runs the packages of its dialect with the provider's real client against a stand-in
server, and writes `fixtures/<recording>.pb` (one OTLP request) and the versions of the packages to
`fixtures/versions.json`. `record_vercel.mjs` is the program for the npm package `ai`.
Then `python -m tests.collector.store.dialects.golden` writes the result of our views; review it
before committing.
"""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))
from tests.clients.standin import StandIn

HERE = Path(__file__).parent / "fixtures"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
ASK = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": "What is the weather in Lima?"},
]
AFTER_TOOL = [
    *ASK,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city":"Lima"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
]


def call_openai(server):
    """Make a tool call, a completion, an embedding and a failure."""
    import openai

    client = openai.OpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0)
    options = {"model": "gpt-4o-mini", "temperature": 0.2, "max_tokens": 64}
    client.chat.completions.create(messages=ASK, tools=TOOLS, **options)
    client.chat.completions.create(messages=AFTER_TOOL, tools=TOOLS, **options)
    client.embeddings.create(model="text-embedding-3-small", input="Lima")
    try:
        client.chat.completions.create(model="broken", messages=ASK)
    except openai.RateLimitError:
        pass


def call_anthropic(server):
    """Make one call with a partly cached prompt, answered with a tool call."""
    import anthropic

    client = anthropic.Anthropic(api_key="x", base_url=server.url, max_retries=0)
    client.messages.create(
        model="claude-sonnet-4-5",
        max_tokens=64,
        system="You are brief.",
        messages=[{"role": "user", "content": "What is the weather in Lima?"}],
        tools=[
            {
                "name": "get_weather",
                "description": "The weather in a city",
                "input_schema": TOOLS[0]["function"]["parameters"],
            }
        ],
    )


def provider():
    """Return a tracer provider and the exporter that keeps its spans."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    made = TracerProvider(resource=Resource({"service.name": "recorder"}))
    made.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(made)
    return made, exporter


def encoded(exporter):
    """Return the kept spans as one OTLP request."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    return encode_spans(exporter.get_finished_spans()).SerializeToString()


def instrumented(instrumentor, call):
    """Record a package that patches a client."""
    module, _, name = instrumentor.partition(":")

    def record(server):
        made, exporter = provider()
        getattr(__import__(module, fromlist=[name]), name)().instrument(tracer_provider=made)
        with made.get_tracer("recorder").start_as_current_span("a program"):
            call(server)
        return encoded(exporter)

    return record


def langchain(server):
    """Record a chain of a prompt, a model and a tool with OpenInference's callbacks."""
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    model = ChatOpenAI(model="gpt-4o-mini", api_key="x", base_url=f"{server.url}/v1", max_retries=0)
    prompt = ChatPromptTemplate.from_messages(
        [("system", "You are brief."), ("user", "{question}")]
    )
    (prompt | model.bind_tools([get_weather])).invoke({"question": "What is the weather in Lima?"})
    get_weather.invoke({"city": "Lima"})


def traceloop(server):
    """Record decorated functions of the Traceloop SDK around calls of OpenAI's client."""
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import agent, tool, workflow

    exporter = InMemorySpanExporter()
    Traceloop.init(
        app_name="recorder", exporter=exporter, disable_batch=True, telemetry_enabled=False
    )
    Traceloop.set_association_properties({"session_id": "session-1", "user_id": "user-1"})

    @tool(name="get_weather")
    def get_weather(city):
        return "sunny"

    @agent(name="weather_agent")
    def ask():
        call_openai(server)
        return get_weather("Lima")

    @workflow(name="weather")
    def run():
        return ask()

    run()
    return encoded(exporter)


def langfuse(server):
    """Record observations of the Langfuse SDK and its wrapper of OpenAI's client."""
    os.environ.update(LANGFUSE_PUBLIC_KEY="pk", LANGFUSE_SECRET_KEY="sk", LANGFUSE_HOST=server.url)
    os.environ["LANGFUSE_BASE_URL"] = server.url
    from langfuse import get_client, observe, propagate_attributes
    from langfuse.openai import openai

    client = openai.OpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0)

    @observe(as_type="tool", name="get_weather")
    def get_weather(city):
        return "sunny"

    @observe(as_type="agent", name="weather_agent")
    def ask():
        with propagate_attributes(session_id="session-1", user_id="user-1"):
            client.chat.completions.create(model="gpt-4o-mini", messages=ASK, tools=TOOLS)
            client.chat.completions.create(model="gpt-4o-mini", messages=AFTER_TOOL)
            with get_client().start_as_current_observation(
                as_type="generation", name="priced", model="claude-sonnet-4-5"
            ) as generation:
                generation.update(
                    input=[{"role": "user", "content": "hi"}],
                    output="hello",
                    usage_details={
                        "input": 20,
                        "output": 15,
                        "cache_read_input_tokens": 300,
                        "cache_creation_input_tokens": 50,
                    },
                    cost_details={"input": 0.001, "output": 0.002},
                )
            return get_weather("Lima")

    ask()
    get_client().flush()
    return b"".join(server.received)  # requests concatenate


def logfire(server):
    """Record Logfire's instrumentation of OpenAI's and Anthropic's clients."""
    os.environ["LOGFIRE_IGNORE_NO_CONFIG"] = "1"
    import logfire
    import openai
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    logfire.configure(
        send_to_logfire=False,
        console=False,
        service_name="recorder",
        additional_span_processors=[SimpleSpanProcessor(exporter)],
    )
    client = openai.OpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0)
    logfire.instrument_openai(client)
    options = {"model": "gpt-4o-mini", "temperature": 0.2, "max_tokens": 64}
    with logfire.span("a plain span"):
        client.chat.completions.create(messages=ASK, tools=TOOLS, **options)
        client.chat.completions.create(messages=AFTER_TOOL, tools=TOOLS, **options)
        client.embeddings.create(model="text-embedding-3-small", input="Lima")
    return encoded(exporter)


def vercel(server):
    """Record the npm package `ai`; needs Node and TRACEREEL_NODE_MODULES."""
    script = Path(os.environ["TRACEREEL_NODE_MODULES"]).parent / "record_vercel.mjs"
    script.write_text((Path(__file__).parent / "record_vercel.mjs").read_text())
    subprocess.run(["node", str(script), server.url], check=True)
    return b"".join(server.received)


def npm_version(package):
    folder = Path(os.environ["TRACEREEL_NODE_MODULES"])
    return json.loads((folder / package / "package.json").read_text())["version"]


def otel_genai(server):
    """Record OpenTelemetry's instrumentation with the newest conventions and content on spans."""
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    return instrumented("opentelemetry.instrumentation.openai_v2:OpenAIInstrumentor", call_openai)(
        server
    )


def otel_genai_old(server):
    """Record the same with default conventions, whose content goes to log records."""
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"
    return instrumented("opentelemetry.instrumentation.openai_v2:OpenAIInstrumentor", call_openai)(
        server
    )


OTEL = ("openai", "opentelemetry-instrumentation-openai-v2", "opentelemetry-util-genai")
RECORDINGS = {
    "openinference-openai": (
        instrumented("openinference.instrumentation.openai:OpenAIInstrumentor", call_openai),
        ("openai", "openinference-instrumentation-openai"),
    ),
    "openinference-anthropic": (
        instrumented(
            "openinference.instrumentation.anthropic:AnthropicInstrumentor", call_anthropic
        ),
        ("anthropic", "openinference-instrumentation-anthropic"),
    ),
    "openinference-langchain": (
        instrumented("openinference.instrumentation.langchain:LangChainInstrumentor", langchain),
        ("langchain-core", "langchain-openai", "openinference-instrumentation-langchain"),
    ),
    "openllmetry-openai": (
        instrumented("opentelemetry.instrumentation.openai:OpenAIInstrumentor", call_openai),
        ("openai", "opentelemetry-instrumentation-openai"),
    ),
    "openllmetry-anthropic": (
        instrumented(
            "opentelemetry.instrumentation.anthropic:AnthropicInstrumentor", call_anthropic
        ),
        ("anthropic", "opentelemetry-instrumentation-anthropic"),
    ),
    "traceloop-sdk": (traceloop, ("openai", "traceloop-sdk")),
    "otel-genai": (otel_genai, OTEL),
    "otel-genai-old": (otel_genai_old, OTEL),
    "langfuse": (langfuse, ("openai", "langfuse")),
    "logfire": (logfire, ("openai", "logfire")),
    "vercel": (vercel, ("ai", "@ai-sdk/openai")),
}


def scrubbed(body):
    """Remove data about the recording machine."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest.FromString(body)
    for resource in request.resource_spans:
        kept = [each for each in resource.resource.attributes if each.key == "service.name"]
        del resource.resource.attributes[:]
        resource.resource.attributes.extend(kept)
        for scope in resource.scope_spans:
            for span in scope.spans:
                for event in span.events:
                    for attribute in event.attributes:
                        if attribute.key == "exception.stacktrace":
                            attribute.value.string_value = "Traceback …"
    return request.SerializeToString()


def main():
    (name,) = sys.argv[1:]
    record, packages = RECORDINGS[name]
    server = StandIn()
    body = scrubbed(record(server))
    HERE.mkdir(exist_ok=True)
    (HERE / f"{name}.pb").write_bytes(body)
    path = HERE / "versions.json"
    versions = json.loads(path.read_text()) if path.exists() else {}
    version = npm_version if record is vercel else metadata.version
    versions[name] = {package: version(package) for package in packages}
    path.write_text(json.dumps(dict(sorted(versions.items())), indent=2) + "\n")
    print(f"{name}: {len(body)} bytes")


if __name__ == "__main__":
    main()
