"""Agent frameworks: pydantic-ai, smolagents, CrewAI, DSPy, LlamaIndex, Google ADK, Vercel AI."""

import asyncio
import os
import subprocess
from pathlib import Path

from tests.clients.programs import scene
from tests.clients.programs.instrumentations import OI

HERE = Path(__file__).parent


def pydantic_ai(server):
    """pydantic-ai's own instrumentation."""
    scene.Provider(server)
    _pydantic_ai(server)


def pydantic_ai_logfire(server):
    """pydantic-ai with Logfire."""
    from tests.clients.programs.instrumentations import logfire

    logfire("pydantic_ai", play=_pydantic_ai)(server)


def _pydantic_ai(server):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    Agent.instrument_all()
    provider = OpenAIProvider(openai_client=_async_openai(server))

    def agent(model):
        made = Agent(
            OpenAIChatModel(model, provider=provider), instructions=scene.SYSTEM, name=scene.AGENT
        )
        made.tool_plain(scene.get_weather)
        return made

    async def play():
        await agent(scene.MODEL).run(scene.QUESTION)
        async with agent(scene.MODEL).run_stream(scene.QUESTION) as streamed:
            async for _ in streamed.stream_text():
                pass
        await scene.await_failure(agent(scene.BROKEN).run(scene.QUESTION))

    asyncio.run(play())


def _async_openai(server):
    import openai

    return openai.AsyncOpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0)


def smolagents(server):
    """OpenInference's instrumentation of smolagents."""
    from openinference.instrumentation import using_attributes
    from smolagents import OpenAIServerModel, Tool, ToolCallingAgent

    scene.Provider(server).instrument(f"{OI}.smolagents:SmolagentsInstrumentor")

    class GetWeather(Tool):
        name = "get_weather"
        description = "The weather in a city."
        inputs = {"city": {"type": "string", "description": "Where"}}  # noqa: RUF012
        output_type = "object"

        def forward(self, city: str):
            return scene.get_weather(city)

    def agent(model):
        made = OpenAIServerModel(
            model_id=model,
            api_base=f"{server.url}/v1",
            api_key="x",
            client_kwargs={"max_retries": 0},
            retry=False,
        )
        return ToolCallingAgent(tools=[GetWeather()], model=made, name=scene.AGENT, max_steps=2)

    with using_attributes(session_id=scene.SESSION, user_id=scene.USER):
        try:
            agent(scene.MODEL).run(scene.QUESTION)
        except Exception as error:
            print(error)
        scene.fail(lambda: agent(scene.BROKEN).run(scene.QUESTION))


def crewai(server):
    """OpenInference's instrumentation of CrewAI."""
    scene.environ(
        CREWAI_DISABLE_TELEMETRY="true", OTEL_SDK_DISABLED="false", CREWAI_TRACING_ENABLED="false"
    )
    from crewai import LLM, Agent, Crew, Task
    from crewai.tools import tool
    from openinference.instrumentation import using_attributes

    scene.Provider(server).instrument(f"{OI}.crewai:CrewAIInstrumentor")
    weather = tool("get_weather")(scene.get_weather)

    def crew(model):
        llm = LLM(model=f"openai/{model}", base_url=f"{server.url}/v1", api_key="x")
        agent = Agent(
            role=scene.AGENT,
            goal="Answer",
            backstory=scene.SYSTEM,
            llm=llm,
            tools=[weather],
            max_retry_limit=0,
        )
        task = Task(description=scene.QUESTION, expected_output="one sentence", agent=agent)
        return Crew(name="weather", agents=[agent], tasks=[task])

    with using_attributes(session_id=scene.SESSION, user_id=scene.USER):
        crew(scene.MODEL).kickoff()
        scene.fail(lambda: crew(scene.BROKEN).kickoff())


def dspy(server):
    """OpenInference's instrumentation of DSPy."""
    import dspy
    from openinference.instrumentation import using_attributes

    scene.Provider(server).instrument(f"{OI}.dspy:DSPyInstrumentor")

    def lm(model):
        return dspy.LM(
            f"openai/{model}",
            api_base=f"{server.url}/v1",
            api_key="x",
            cache=False,
            num_retries=0,
        )

    with using_attributes(session_id=scene.SESSION, user_id=scene.USER):
        lm(scene.MODEL)(messages=scene.ASKED)
        dspy.Tool(scene.get_weather)(city="Lima")
        dspy.configure(lm=lm(scene.BROKEN))
        scene.fail(lambda: dspy.Predict("question -> answer")(question=scene.QUESTION))


def llama_index(server):
    """OpenInference's instrumentation of LlamaIndex."""
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.llms.openai_like import OpenAILike
    from openinference.instrumentation import using_attributes

    scene.Provider(server).instrument(f"{OI}.llama_index:LlamaIndexInstrumentor")

    def llm(model):
        return OpenAILike(
            model=model,
            api_base=f"{server.url}/v1",
            api_key="x",
            is_chat_model=True,
            is_function_calling_model=True,
            max_retries=0,
        )

    async def run(model):
        agent = FunctionAgent(
            name=scene.AGENT,
            tools=[scene.get_weather],
            llm=llm(model),
            system_prompt=scene.SYSTEM,
            streaming=False,
        )
        await agent.run(scene.QUESTION)

    with using_attributes(session_id=scene.SESSION, user_id=scene.USER):
        asyncio.run(run(scene.MODEL))
        for _ in llm(scene.MODEL).stream_complete(scene.QUESTION):
            pass
        scene.fail(lambda: asyncio.run(run(scene.BROKEN)))


def adk(server):
    """Google's Agent Development Kit, whose models are those of LiteLLM."""
    scene.environ(**scene.LATEST, ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS="true")
    from google.adk.agents import Agent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    scene.Provider(server)

    async def run(model, **config):
        llm = LiteLlm(
            model=f"openai/{model}", api_base=f"{server.url}/v1", api_key="x", num_retries=0
        )
        agent = Agent(
            name=scene.AGENT, model=llm, instruction=scene.SYSTEM, tools=[scene.get_weather]
        )
        runner = InMemoryRunner(agent=agent, app_name="recorder")
        await runner.session_service.create_session(
            app_name="recorder", user_id=scene.USER, session_id=scene.SESSION
        )
        asked = types.Content(role="user", parts=[types.Part(text=scene.QUESTION)])
        async for _ in runner.run_async(
            user_id=scene.USER,
            session_id=scene.SESSION,
            new_message=asked,
            run_config=RunConfig(**config),
        ):
            pass

    asyncio.run(run(scene.MODEL))
    asyncio.run(run(scene.MODEL, streaming_mode=StreamingMode.SSE))
    try:
        asyncio.run(run(scene.BROKEN))
    except Exception as error:
        print(error)


def vercel(script):
    """Return a program for the npm package `ai`; needs Node."""

    def run(server):
        folder = Path(os.environ["TRACEREEL_NODE_MODULES"]).parent
        copy = folder / script
        copy.write_text((HERE / script).read_text(encoding="utf-8"), encoding="utf-8")
        subprocess.run(["node", str(copy), server.url], check=True, cwd=folder)

    return run


PROGRAMS = {
    "pydantic-ai": pydantic_ai,
    "pydantic-ai-logfire": pydantic_ai_logfire,
    "openinference-smolagents": smolagents,
    "openinference-crewai": crewai,
    "openinference-dspy": dspy,
    "openinference-llama-index": llama_index,
    "adk-1": adk,
    "adk-2": adk,
    "vercel-6": vercel("vercel6.mjs"),
    "vercel-7": vercel("vercel7.mjs"),
    "vercel-7-legacy": vercel("vercel7_legacy.mjs"),
}
