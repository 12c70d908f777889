"""More programs with LangGraph, LangChain, the Agents SDK, pydantic-ai and Google's client."""

import asyncio
from typing import Any

from agents import Agent, Runner, function_tool
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from openai.types.responses import ResponseFunctionToolCall
from pydantic_ai import Agent as TypedAgent
from pydantic_ai import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from tests.sdk.tape.programs.documented_agents import Scripted
from tests.sdk.tape.programs.mutated_frameworks import State
from tests.sdk.tape.programs.mutated_plain import ask, ask_later, search
from tests.sdk.tape.programs.mutations import has, program, ran
from tests.support import replay_clients
from tracereel import traced_agent, traced_llm, traced_step
from tracereel.integrations.langgraph import wrap
from tracereel.integrations.pydantic_ai import TracereelCapability


@tool
def stock(item: str, place: str = "shop") -> str:
    """Return how many there are."""
    ran.append("stock")
    return f"3 {item} in the {place}"


def _chat(state: MessagesState) -> dict[str, Any]:
    last = state["messages"][-1]
    said = ask(f"{'Briefly: ' if has('prompt') else ''}{last.content}")
    if last.type == "tool":
        return {"messages": [AIMessage(said.upper() if has("output") else said)]}
    arguments = {"item": "lamps" if has("argument") else "mugs"}
    calls = [{"name": "stock", "args": arguments, "id": "call_1"}]
    if has("twice"):
        calls.append({**calls[0], "args": {"item": "tea"}, "id": "call_2"})
    return {"messages": [AIMessage(said, tool_calls=calls)]}


_tools = StateGraph(MessagesState)
_tools.add_node("chat", _chat)
_tools.add_node("tools", ToolNode([stock]))
_tools.add_edge(START, "chat")
_tools.add_conditional_edges(
    "chat", lambda state: "tools" if state["messages"][-1].tool_calls else END
)
_tools.add_edge("tools", "chat")
with_tools = wrap(_tools.compile())


@program("step", prompt="prompt_changed", argument="changed", twice="changed", output="changed")
@traced_agent("keeper")
def graph_with_tools() -> str:
    """Let a node call tools of LangChain."""
    messages = {"messages": [HumanMessage("how many mugs", id="1")]}
    if has("step"):
        with traced_step("ask the graph"):
            return str(with_tools.invoke(messages)["messages"][-1].content)
    return str(with_tools.invoke(messages)["messages"][-1].content)


def _refine(state: State) -> State:
    words = state["question"].split()
    return {"question": " ".join(words[:1] if has("argument") else words)}


def _find(state: State) -> State:
    return {"found": search(state["question"], limit=2 if has("limit") else 1)}


_inner = StateGraph(State)
_inner.add_node("refine", _refine)
_inner.add_node("find", _find)
_inner.add_edge(START, "refine")
_inner.add_edge("refine", "find")
_inner.add_edge("find", END)
_outer = StateGraph(State)
_outer.add_node("inner", _inner.compile())
_outer.add_node("sum up", lambda state: {"kind": ask(" ".join(state["found"]))})
_outer.add_edge(START, "inner")
_outer.add_edge("inner", "sum up")
_outer.add_edge("sum up", END)


@program("variable", argument="changed", limit="changed", turns="changed")
@traced_agent("two turns")
def graph_with_memory() -> Any:
    """Run a graph in a graph for two turns of a conversation that it remembers."""
    graph = wrap(_outer.compile(checkpointer=InMemorySaver()))
    thread: Any = {"configurable": {"thread_id": "1"}}
    graph.invoke({"question": "blue mugs"}, thread)
    if has("turns"):
        return graph.invoke({"question": "green mugs"}, {"configurable": {"thread_id": "2"}})
    if has("variable"):
        found = graph.invoke({"question": "green mugs"}, thread)
        return {name: found[name] for name in found}
    return graph.invoke({"question": "green mugs"}, thread)


def _asks(name: str) -> Any:
    async def node(state: State) -> State:
        question = f"{name} {'?' if has('prompt') and name == 'b' else ''}{state['question']}"
        return {"found": [await ask_later(question)]}

    return node


_wide = StateGraph(State)
for _name in ("a", "b", "c"):
    _wide.add_node(_name, _asks(_name))
    _wide.add_edge(START, _name)
    _wide.add_edge(_name, END)
wide = wrap(_wide.compile())


@program("pool", prompt="prompt_changed", question="prompt_changed", output="changed")
def graph_of_tasks() -> Any:
    """Ask in three nodes that run as tasks."""
    question = "cups" if has("question") else "mugs"
    limit: Any = {"max_concurrency": 1} if has("pool") else None
    return asyncio.run(_graph_of_tasks(question, limit))


@traced_agent("three at once")
async def _graph_of_tasks(question: str, limit: Any) -> list[str]:
    found = await wide.ainvoke({"question": question}, limit)
    return sorted(found["found"], reverse=has("output"))


@program("pool", "step", topics="changed", prompt="prompt_changed", case="changed")
@traced_agent("runnables")
def langchain_batch() -> list[Any]:
    """Run a chain with two branches over a list of topics."""
    look = RunnableLambda(lambda topic: search(topic, limit=1))
    told = RunnableLambda(lambda topic: ask(f"{'Briefly ' if has('prompt') else ''}{topic}"))
    chain = RunnableParallel(look=look, told=told)
    if has("case"):
        chain = chain | RunnableLambda(lambda found: {**found, "told": found["told"].upper()})
    topics = ["tea", "mugs", "rain"] if has("topics") else ["tea", "mugs"]
    workers: Any = {"max_concurrency": 1 if has("pool") else 4}
    if has("step"):
        with traced_step("batch"):
            return list(chain.batch(topics, workers))
    return list(chain.batch(topics, workers))


class Clerk(Scripted):
    """Model that hands a conversation over."""

    async def get_response(self, system_instructions: Any, *args: Any, **options: Any) -> Any:
        found = await super().get_response(system_instructions, *args, **options)
        call = found.output[0]
        if isinstance(call, ResponseFunctionToolCall):
            call.name, call.arguments = "transfer_to_specialist", "{}"
        return found


@function_tool
def get_weather(city: str) -> str:
    """Return the weather of a city."""
    ran.append("get_weather")
    return f"sunny in {city}"


specialist = Agent(name="specialist", instructions="Answer.", model=Scripted(), tools=[get_weather])
clerk = Agent(name="clerk", instructions="Hand over.", model=Clerk(), handoffs=[specialist])


@program("step", handed="changed", instructions="prompt_changed", output="changed")
@traced_agent("hand-over")
def agents_handoff() -> str:
    """Hand a conversation over to another agent of the Agents SDK."""
    clerk.instructions = "Hand over at once." if has("instructions") else "Hand over."
    first = specialist if has("handed") else clerk
    if has("step"):
        with traced_step("talk"):
            return str(asyncio.run(Runner.run(first, "Weather?")).final_output)
    said = str(asyncio.run(Runner.run(first, "Weather?")).final_output)
    return f"{said}." if has("output") else said


@traced_llm("scripted", provider="scripted")
def planned(texts: list[str]) -> dict[str, Any]:
    ran.append("planned")
    return {"ask": ["Lima", "Cusco"]} if len(texts) == 1 else {"text": " and ".join(texts[1:])}


def _plan(messages: list[Any], _info: Any) -> ModelResponse:
    texts = [
        str(part.content)
        for message in messages
        for part in message.parts
        if part.part_kind in ("user-prompt", "tool-return")
    ]
    given = planned(texts)
    if "text" in given:
        return ModelResponse(parts=[TextPart(given["text"])])
    cities = given["ask"][: 1 if has("fewer") else 2]
    calls = [ToolCallPart("forecast", {"city": city}, f"call_{city}") for city in cities]
    return ModelResponse(parts=calls)


planner = TypedAgent(FunctionModel(_plan), name="planner", capabilities=[TracereelCapability()])


@planner.tool_plain
def forecast(city: str) -> str:
    """Return the forecast of a city."""
    ran.append("forecast")
    return f"sun in {city}"


@program("step", fewer="changed", question="prompt_changed", output="changed")
@traced_agent("forecasts")
def pydantic_two_tools() -> str:
    """Let an agent of pydantic-ai call a tool twice at the same time."""
    question = "Which weather?" if has("question") else "What weather?"
    if has("step"):
        with traced_step("plan"):
            return str(asyncio.run(planner.run(question)).output)
    said = str(asyncio.run(planner.run(question)).output)
    return said.upper() if has("output") else said


@program("variable", prompt="prompt_changed", options="prompt_changed", output="changed")
@traced_agent("google")
def google_talk() -> list[str]:
    """Ask Google's client, with options."""
    client = replay_clients.google_client()
    questions = ["why", "how now" if has("prompt") else "how"]
    options: Any = {"temperature": 0.5 if has("options") else 0.1}
    said = []
    for question in questions:
        answer = client.models.generate_content(model="m", contents=question, config=options)
        if has("variable"):
            text = answer.text
            said.append(str(text))
        else:
            said.append(str(answer.text))
    return said[:1] if has("output") else said
