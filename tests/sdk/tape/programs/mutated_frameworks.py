"""Programs with LangGraph, LangChain, OpenAI's Agents SDK and pydantic-ai, and real clients."""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from agents import Agent, Runner, function_tool
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from pydantic import BaseModel
from pydantic_ai import Agent as TypedAgent
from pydantic_ai import ModelResponse, ModelRetry, RunContext, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from tests.sdk.tape.programs.documented_agents import Scripted
from tests.sdk.tape.programs.documented_graph import graph as documented_graph
from tests.sdk.tape.programs.mutated_plain import ask, search
from tests.sdk.tape.programs.mutations import has, program, ran
from tests.support import replay_clients
from tracereel import traced_agent, traced_llm, traced_step
from tracereel.integrations.langgraph import TracereelHandler, wrap
from tracereel.integrations.pydantic_ai import TracereelCapability


class State(TypedDict, total=False):
    """State of the graphs."""

    question: str
    kind: str
    found: Annotated[list[str], operator.add]


def _classify(state: State) -> State:
    kind = ask(f"classify {state['question']}")
    return {"kind": "long" if len(kind) > (400 if has("branch") else 4) else "short"}


def _answer(state: State) -> State:
    if has("step"):
        with traced_step("looking"):
            hits = search(state["question"])
    else:
        hits = search(state["question"], limit=2) if has("limit") else search(state["question"])
    return {"found": hits}


def _brief(state: State) -> State:
    return {"found": [state["question"]]}


_router = StateGraph(State)
_router.add_node("classify", _classify)
_router.add_node("answer", _answer)
_router.add_node("brief", _brief)
_router.add_edge(START, "classify")
_router.add_conditional_edges(
    "classify", lambda state: "answer" if state["kind"] == "long" else "brief"
)
_router.add_edge("answer", END)
_router.add_edge("brief", END)
router = wrap(_router.compile())


@program("step", branch="changed", limit="changed")
def graph_router() -> Any:
    """Choose a node by what the model says."""
    return router.invoke({"question": "which mug"})


def _split(state: State) -> list[Send]:
    count = 4 if has("more") else 3
    return [Send("look", {"question": f"{state['question']} {n}"}) for n in range(count)]


def _look(state: State) -> State:
    query = state["question"].title() if has("argument") else state["question"]
    return {"found": search(query, limit=1)}


def _join(state: State) -> State:
    found = sorted(state["found"])
    return {"found": [ask(f"{'Briefly: ' if has('prompt') else ''}{found}")]}


_fan = StateGraph(State)
_fan.add_node("look", _look)
_fan.add_node("join", _join)
_fan.add_conditional_edges(START, _split, ["look"])
_fan.add_edge("look", "join")
_fan.add_edge("join", END)
fan = wrap(_fan.compile())


@program("pool", more="changed", argument="changed", prompt="prompt_changed")
def graph_fan_out() -> Any:
    """Search in branches of a graph that run at the same time."""
    return fan.invoke({"question": "mugs"}, {"max_concurrency": 1} if has("pool") else None)


@program(topic="changed")
def graph_streamed() -> Any:
    """Read a graph node by node."""
    topic = {"topic": "dogs"}
    if has("topic"):
        topic = {"topic": "cats"}
    return list(documented_graph.stream(topic, stream_mode="updates"))


@tool
def weather(place: str, unit: str = "C") -> str:
    """Return the weather of a place."""
    ran.append("weather")
    return f"20 {unit} in {place}"


class Passages(BaseRetriever):
    """Retriever of the program."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        del run_manager
        ran.append("passages")
        return [Document(f"{query} is a word"), Document("mugs are blue")]


_prompt = ChatPromptTemplate.from_messages(
    [("system", "Answer from: {context}"), ("user", "{question}")]
)


@program("step", question="changed", prompt="prompt_changed", output="changed")
@traced_agent("chain")
def langchain_chain() -> str:
    """Retrieve and answer with a chain of LangChain."""
    question = "blue?" if has("question") else "what are mugs?"
    found = Passages().invoke(question, {"callbacks": [TracereelHandler()]})
    if has("prompt"):
        found = found[:1]
    model = RunnableLambda(lambda value: ask(value.to_string()))
    chain = _prompt | model | StrOutputParser()
    said = chain.invoke({"context": "; ".join(d.page_content for d in found), "question": question})
    return said.upper() if has("output") else said


@program("default", "step", place="changed", unit="changed")
@traced_agent("forecaster")
def langchain_tool() -> str:
    """Call a tool of LangChain."""
    given = {"place": "Lima" if not has("place") else "Cusco"}
    if has("unit"):
        given["unit"] = "F"
    if has("step"):
        with traced_step("ask the station"):
            return str(weather.invoke(given))
    return str(weather.invoke(given))


@function_tool
def get_weather(city: str) -> str:
    """Return the weather of a city."""
    ran.append("get_weather")
    return f"sunny in {city}"


assistant = Agent(name="Assistant", instructions="Help.", model=Scripted(), tools=[get_weather])


@program(instructions="prompt_changed", question="prompt_changed", output="changed")
@traced_agent("office")
def agents_sdk() -> str:
    """Run an agent of the Agents SDK inside of a function."""
    assistant.instructions = "Help, in verse." if has("instructions") else "Help."
    question = "Weather today?" if has("question") else "Weather?"
    said = str(asyncio.run(Runner.run(assistant, question)).final_output)
    return f"{said}!" if has("output") else said


class City(BaseModel):
    """City and its country."""

    name: str
    country: str
    people: int = 0


@traced_llm("scripted", provider="scripted")
def typed(texts: list[str]) -> dict[str, Any]:
    ran.append("typed")
    if not any("resident" in text for text in texts):
        return {"tool": "residents", "arguments": {"city": "Lima" if len(texts) > 1 else "lima"}}
    return {"tool": "final_result", "arguments": {"name": "Lima", "country": "Peru", "people": 10}}


def _respond(messages: list[Any], _info: Any) -> ModelResponse:
    texts = [
        str(part.content)
        for message in messages
        for part in message.parts
        if part.part_kind in ("user-prompt", "tool-return", "retry-prompt")
    ]
    given = typed(texts)
    if "text" in given:
        return ModelResponse(parts=[TextPart(given["text"])])
    return ModelResponse(
        parts=[ToolCallPart(given["tool"], given["arguments"], f"call_{len(texts)}")]
    )


typed_agent = TypedAgent(
    FunctionModel(_respond),
    name="cities",
    deps_type=str,
    output_type=City,
    capabilities=[TracereelCapability()],
)


@typed_agent.tool
def residents(ctx: RunContext[str], city: str) -> str:
    """Return the number of residents of a city."""
    ran.append("residents")
    if city == "lima":
        raise ModelRetry("Write the city with a capital letter.")
    return f"{ctx.deps}: 10 residents"


@program("step", question="prompt_changed", output="changed")
@traced_agent("atlas")
def pydantic_typed() -> City:
    """Ask an agent of pydantic-ai for an object; its tool asks the model to try again."""
    question = "Which town?" if has("question") else "Which city?"
    if has("step"):
        with traced_step("ask"):
            found = asyncio.run(typed_agent.run(question, deps="census")).output
    else:
        found = asyncio.run(typed_agent.run(question, deps="census")).output
    return found.model_copy(update={"people": 11}) if has("output") else found


@program("variable", "step", system="prompt_changed", model="prompt_changed", output="changed")
@traced_agent("talks")
def anthropic_talk() -> list[Any]:
    """Hold a conversation through Anthropic's client."""
    messages = replay_clients.asked("why")
    system = "Be kind." if has("system") else "Be brief."
    with replay_clients.anthropic_client() as client:
        for turn in range(3):
            answer = client.messages.create(
                model="n" if has("model") else "m", max_tokens=9, system=system, messages=messages
            )
            messages += [{"role": "assistant", "content": answer.content[0].text}]
            if has("step"):
                with traced_step("go on"):
                    messages += replay_clients.asked(f"and then {turn}")
            else:
                messages += replay_clients.asked(f"and then {turn}")
    return messages[:-1] if has("output") else messages


@program("pool", prompt="prompt_changed", output="changed")
def openai_tasks() -> list[str]:
    """Ask OpenAI's client in tasks, with a client of this run."""
    return asyncio.run(_openai_tasks())


@traced_agent("asks together")
async def _openai_tasks() -> list[str]:
    limit = asyncio.Semaphore(1 if has("pool") else 3)
    async with replay_clients.openai_client() as client:

        async def one(number: int) -> str:
            async with limit:
                answer = await client.chat.completions.create(
                    model="m",
                    messages=replay_clients.asked(f"{number}{'?' if has('prompt') else ''}"),
                )
                return str(answer.choices[0].message.content)

        said = await asyncio.gather(*(one(number) for number in range(3)))
    return said[::-1] if has("output") else list(said)
