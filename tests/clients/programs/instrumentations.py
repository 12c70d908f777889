"""Instrumentations of model clients: OpenTelemetry's, OpenInference's, OpenLLMetry's, Logfire."""

import asyncio
from contextlib import ExitStack, nullcontext

from tests.clients.programs import scene

OI = "openinference.instrumentation"
OTEL = "opentelemetry.instrumentation"
OI_OPENAI = f"{OI}.openai:OpenAIInstrumentor"
OI_ANTHROPIC = f"{OI}.anthropic:AnthropicInstrumentor"
OI_LANGCHAIN = f"{OI}.langchain:LangChainInstrumentor"
GENAI_OPENAI = f"{OTEL}.genai.openai:OpenAIInstrumentor"
GENAI_ANTHROPIC = f"{OTEL}.genai.anthropic:AnthropicInstrumentor"
GENAI_LANGCHAIN = f"{OTEL}.genai.langchain:LangChainInstrumentor"
GENAI_AGENTS = f"{OTEL}.genai.openai_agents:OpenAIAgentsInstrumentor"


def chat(server):
    """Play the scene with OpenAI's chat completions."""
    scene.play_chat(server)


def parallel(server):
    """Play two calls at the same time with OpenAI's chat completions."""
    scene.play_parallel(server)


def anthropic(server):
    """Play the scene with Anthropic's client."""
    scene.play_anthropic(server)


def langchain(server):
    """Play the scene with an agent of LangChain."""
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    options = {"api_key": "x", "base_url": f"{server.url}/v1", "max_retries": 0}
    options["stream_usage"] = True
    model = ChatOpenAI(model=scene.MODEL, temperature=0.2, **options)
    agent = create_agent(
        model, tools=[tool(scene.get_weather)], system_prompt=scene.SYSTEM, name=scene.AGENT
    )
    config = {"metadata": {"session_id": scene.SESSION, "user_id": scene.USER}}
    agent.invoke({"messages": [("user", scene.QUESTION)]}, config)
    for _ in model.stream(scene.ASKED, config):
        pass
    broken = ChatOpenAI(model=scene.BROKEN, **options)
    scene.fail(lambda: broken.invoke(scene.ASKED, config))


def openai_agents(server):
    """Play the scene with OpenAI's Agents SDK."""
    import openai
    from agents import Agent, RunConfig, Runner, function_tool, set_default_openai_client

    client = openai.AsyncOpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0)
    set_default_openai_client(client, use_for_tracing=False)
    agent = Agent(
        name=scene.AGENT,
        instructions=scene.SYSTEM,
        model=scene.MODEL,
        tools=[function_tool(scene.get_weather)],
    )
    config = RunConfig(workflow_name="weather", group_id=scene.SESSION)

    broken = Agent(name=scene.AGENT, instructions=scene.SYSTEM, model=scene.BROKEN)

    async def play():
        await Runner.run(agent, scene.QUESTION, run_config=config)
        streamed = Runner.run_streamed(agent, scene.QUESTION, run_config=config)
        async for _ in streamed.stream_events():
            pass
        await scene.await_failure(Runner.run(broken, scene.QUESTION, run_config=config))

    asyncio.run(play())


def instrumented(play, *instrumentors, root="", **environ):
    """Return a program that switches instrumentations on and plays."""

    def run(server):
        scene.environ(**environ)
        provider = scene.Provider(server)
        provider.instrument(*instrumentors)
        with ExitStack() as inside:
            if any(each.startswith(OI) for each in instrumentors):
                from openinference.instrumentation import using_attributes

                inside.enter_context(using_attributes(session_id=scene.SESSION, user_id=scene.USER))
            if root:
                inside.enter_context(provider.tracer.start_as_current_span(root))
            play(server)

    return run


def logfire(*instruments, play, root=""):
    """Return a program with Logfire."""

    def run(server):
        scene.environ(LOGFIRE_IGNORE_NO_CONFIG="1")
        import logfire
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor

        exporter = OTLPSpanExporter(f"{server.url}/v1/traces")
        logfire.configure(
            send_to_logfire=False,
            console=False,
            service_name="recorder",
            additional_span_processors=[SimpleSpanProcessor(exporter)],
        )
        for each in instruments:
            getattr(logfire, f"instrument_{each}")()
        with logfire.span(root) if root else nullcontext():
            play(server)

    return run


def traceloop(play):
    """Return a program with the Traceloop SDK."""

    def run(server):
        scene.environ(TRACELOOP_TELEMETRY="false")
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from traceloop.sdk import Traceloop
        from traceloop.sdk.decorators import agent

        exporter = OTLPSpanExporter(f"{server.url}/v1/traces")
        Traceloop.init(
            app_name="recorder", exporter=exporter, disable_batch=True, telemetry_enabled=False
        )
        Traceloop.set_association_properties({"session_id": scene.SESSION, "user_id": scene.USER})
        agent(name=scene.AGENT)(lambda: play(server))()

    return run


PROGRAMS = {
    "otel-openai": instrumented(
        chat, f"{OTEL}.openai_v2:OpenAIInstrumentor", root="weather", **scene.LATEST
    ),
    "otel-openai-events": instrumented(
        chat, f"{OTEL}.openai_v2:OpenAIInstrumentor", root="weather", **scene.IN_EVENTS
    ),
    "otel-openai-default": instrumented(
        chat,
        f"{OTEL}.openai_v2:OpenAIInstrumentor",
        root="weather",
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true",
    ),
    "genai-openai": instrumented(chat, GENAI_OPENAI, root="weather", **scene.LATEST),
    "genai-openai-events": instrumented(chat, GENAI_OPENAI, root="weather", **scene.IN_EVENTS),
    "genai-anthropic": instrumented(anthropic, GENAI_ANTHROPIC, root="weather", **scene.LATEST),
    "genai-langchain": instrumented(langchain, GENAI_LANGCHAIN, **scene.LATEST),
    "genai-agents": instrumented(openai_agents, GENAI_AGENTS, **scene.LATEST),
    "openinference-openai": instrumented(chat, OI_OPENAI, root="weather"),
    "openinference-anthropic": instrumented(anthropic, OI_ANTHROPIC, root="weather"),
    "openinference-langchain": instrumented(langchain, OI_LANGCHAIN),
    "openinference-agents": instrumented(
        openai_agents, f"{OI}.openai_agents:OpenAIAgentsInstrumentor"
    ),
    "both-genai": instrumented(langchain, GENAI_LANGCHAIN, GENAI_OPENAI, **scene.LATEST),
    "both-genai-agents": instrumented(openai_agents, GENAI_AGENTS, GENAI_OPENAI, **scene.LATEST),
    "both-openinference": instrumented(langchain, OI_LANGCHAIN, OI_OPENAI, root="weather"),
    "both-anthropic": instrumented(
        anthropic, OI_ANTHROPIC, GENAI_ANTHROPIC, root="weather", **scene.LATEST
    ),
    "both-openai": instrumented(chat, OI_OPENAI, GENAI_OPENAI, root="weather", **scene.LATEST),
    "both-parallel": instrumented(
        parallel, OI_OPENAI, GENAI_OPENAI, root="weather", **scene.LATEST
    ),
    "logfire-openai": logfire("openai", play=chat, root="weather"),
    "logfire-anthropic": logfire("anthropic", play=anthropic, root="weather"),
    "logfire-agents": logfire("openai_agents", play=openai_agents),
    "traceloop-openai": traceloop(chat),
    "traceloop-langchain": traceloop(langchain),
}
