"""LangGraph agents of the replay corpus: graph code runs again, calls of nodes are served."""

import asyncio
import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from tests.support.replay_world import BusyError, flaky, lookup, search, speak, think
from tracereel import traced_agent, traced_decision
from tracereel.integrations.langgraph import wrap


class State(TypedDict, total=False):
    """State passed between nodes; `found` grows in the order in which they end."""

    question: str
    found: Annotated[list[Any], operator.add]
    rounds: int


def chain() -> Any:
    """Plan, look up in a plain function, respond."""

    async def plan(state: State) -> State:
        return {"found": [await think([{"content": state["question"]}])]}

    def check(state: State) -> State:
        return {"found": [lookup(str(state["found"]))]}

    async def answer(state: State) -> State:
        return {"found": [await think([{"content": str(each)} for each in state["found"]])]}

    graph = StateGraph(State)
    for node in (plan, check, answer):
        graph.add_node(node)
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "check")
    graph.add_edge("check", "answer")
    return graph.compile()


def fan_out() -> Any:
    """Three concurrent searches, one of which retries, and a final response."""

    def branch(name: str) -> Any:
        async def node(state: State) -> State:
            first = await search(f"{name} {state['question']}")
            if first["value"] % 2:
                first = await search(f"{name} again {first['value']}")
            return {"found": [(name, first["value"])]}

        return node

    async def answer(state: State) -> State:
        return {"found": [await think([{"content": str(state["found"])}])]}

    graph = StateGraph(State)
    graph.add_node("answer", answer)
    for name in ("left", "middle", "right"):
        graph.add_node(name, branch(name))
        graph.add_edge(START, name)
        graph.add_edge(name, "answer")
    return graph.compile()


def send_each() -> Any:
    """As many tasks as the plan has topics, each with its own state."""

    async def plan(state: State) -> State:
        found = await search(state["question"])
        return {"rounds": 2 + found["value"] % 3}

    def topics(state: State) -> list[Send]:
        return [Send("look", {"question": f"topic {n}"}) for n in range(state["rounds"])]

    async def look(state: State) -> State:
        heard = [part async for part in speak(state["question"])]
        return {"found": [(state["question"], heard)]}

    graph = StateGraph(State)
    graph.add_node("plan", plan)
    graph.add_node("look", look)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", topics, ["look"])
    return graph.compile()


@traced_decision("go_on", candidates=["act", "done"])
def go_on(value: int, rounds: int) -> str:
    return "done" if value % 3 == 0 or rounds > 3 else "act"


def rounds() -> Any:
    """Loop that a decision ends, with a call that may fail in each round."""

    async def act(state: State) -> State:
        count = state.get("rounds", 0) + 1
        try:
            return {"found": [(await flaky(f"round {count}"))["value"]], "rounds": count}
        except BusyError as error:
            return {"found": [f"busy: {error.after}"], "rounds": count}

    def way(state: State) -> str:
        last = state["found"][-1]
        return go_on(last if isinstance(last, int) else 1, state["rounds"])

    graph = StateGraph(State)
    graph.add_node("act", act)
    graph.add_edge(START, "act")
    graph.add_conditional_edges("act", way, {"act": "act", "done": END})
    return graph.compile()


def threads() -> Any:
    """Concurrent plain nodes, which LangGraph runs in threads."""

    def branch(name: str) -> Any:
        return lambda _state: {"found": [lookup(f"{name} {n}")["value"] for n in range(2)]}

    graph = StateGraph(State)
    for name in ("one", "two", "three"):
        graph.add_node(name, branch(name))
        graph.add_edge(START, name)
    return graph.compile()


def nested() -> Any:
    """Graph within a graph."""
    graph = StateGraph(State)
    graph.add_node("inner", fan_out())
    graph.add_node("after", chain())
    graph.add_edge(START, "inner")
    graph.add_edge("inner", "after")
    return graph.compile()


def _agents() -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}

    def asked(name: str, graph: Any) -> None:
        async def ask() -> Any:
            return (await graph.ainvoke({"question": "why"}))["found"]

        found[name] = traced_agent(name)(ask)

    for build in (chain, fan_out, send_each, rounds, nested):
        asked(f"langgraph_{build.__name__}", build())
    asked("langgraph_wrapped", wrap(fan_out()))

    plain = threads()

    @traced_agent("langgraph_threads")
    def langgraph_threads() -> Any:
        return plain.invoke({"question": "why"})["found"]

    @traced_agent("langgraph_updates")
    async def langgraph_updates() -> Any:
        stream = graphs["fan_out"].astream({"question": "why"}, stream_mode="updates")
        return [str(update) async for update in stream]

    @traced_agent("langgraph_side_by_side")
    async def langgraph_side_by_side() -> Any:
        runs = (graphs["rounds"].ainvoke({"question": str(n)}) for n in range(3))
        return [state["found"] for state in await asyncio.gather(*runs)]

    graphs = {"fan_out": fan_out(), "rounds": rounds()}
    for each in (langgraph_threads, langgraph_updates, langgraph_side_by_side):
        found[each.__name__] = each
    return found


GRAPHS = _agents()
