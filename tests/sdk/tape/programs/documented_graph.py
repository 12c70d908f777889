"""Graph as LangGraph's documentation writes one; no function of ours is around it."""

from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

from tracereel import traced_llm, traced_tool
from tracereel.integrations.langgraph import wrap

changed: set[str] = set()
ran: list[str] = []


class State(TypedDict, total=False):
    """State of the graph."""

    topic: str
    joke: str
    score: int


@traced_llm("model", provider="scripted")
def model(prompt: str) -> str:
    ran.append("model")
    return f"A joke: {prompt[-20:]}"


@traced_tool("rate", effect="read")
def rate(joke: str) -> int:
    ran.append("rate")
    return len(joke)


def generate_joke(state: State) -> State:
    style = "long" if "prompt" in changed else "short"
    return {"joke": model(f"Write a {style} joke about {state['topic']}")}


def check(state: State) -> State:
    joke = state["joke"].upper() if "argument" in changed else state["joke"]
    return {"score": rate(joke) + (1 if "output" in changed else 0)}


builder = StateGraph(State)
builder.add_node("generate_joke", generate_joke)
builder.add_node("check", check)
builder.add_edge(START, "generate_joke")
builder.add_edge("generate_joke", "check")
builder.add_edge("check", END)
graph = wrap(builder.compile())


def main(topic: str) -> Any:
    return graph.invoke({"topic": topic})
