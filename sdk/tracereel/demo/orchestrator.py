"""Demo LangGraph orchestrator: a router and two specialists that alternate reasoning and tools.

`wrap` records graphs, nodes, models and tools. The router records its decision, and each
specialist the rounds of its loop. The run begins with the function `answer` of this module, so
that `tracereel replay` can call it again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Final, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

import tracereel
from tracereel.demo.orchestrator_script import (
    DOCUMENTS,
    GENERAL,
    MAX_ITERATIONS,
    ORDERS,
    models_for,
)
from tracereel.integrations.langgraph import wrap
from tracereel.providers.routing import Routing, Rule

PIPELINE: Final = "support_desk"
RECURSION_LIMIT: Final = 50
TIME_LIMIT_SECONDS: Final = 300.0

AGENTS: Final = (ORDERS, DOCUMENTS, GENERAL)
COMMANDS: Final = {"/orders": ORDERS, "/docs": DOCUMENTS, "/search": DOCUMENTS}
ORDER_WORDS: Final = ("order", "invoice", "customer", "stock")
TOO_MANY: Final = "I could not finish this in ten rounds."


class OrchestratorState(TypedDict, total=False):
    """State passed between nodes."""

    messages: Annotated[list[AnyMessage], add_messages]
    attachments: list[str]
    active_agent: str


@tool
def find_orders(customer: str) -> str:
    """Return the open orders of a customer."""
    return f"{customer}: order 1042 (shipped), order 1077 (waiting for stock)"


@tool
def get_invoice(order: str) -> str:
    """Return the invoice of an order."""
    return f"order {order}: 180.00 EUR, paid"


@tool
def search_documents(query: str) -> str:
    """Return passages of the documents that contain these words."""
    return f"returns.pdf, page 2: about {query}"


for _tool in (find_orders, get_invoice, search_documents):
    _tool.metadata = {"effect": "read"}  # may run in a fork

Models = Mapping[str, BaseChatModel]
"""Models by agent name; the router's is `router`."""


class Orchestrator:
    """The graph, and the pipeline around one run of it."""

    def __init__(self, models: Models, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._models = models
        self._clock = clock
        self._deadline = 0.0
        builder = StateGraph(OrchestratorState)
        builder.add_node("router", self._route)
        for name, tools in (
            (ORDERS, [find_orders, get_invoice]),
            (DOCUMENTS, [search_documents]),
            (GENERAL, []),
        ):
            builder.add_node(name, self._specialist(name, tools))
            builder.add_edge(name, END)
        builder.add_edge(START, "router")
        builder.add_conditional_edges("router", _active, list(AGENTS))
        graph = builder.compile(name="orchestrator")
        # Specialists check the deadline between steps; this limits a step that hangs.
        graph.step_timeout = TIME_LIMIT_SECONDS
        self._graph = wrap(graph)
        self.trace_id: str | None = None
        """Trace id of the latest request."""

    def say(self, prompt: str, attachments: list[str], session_id: str) -> str:
        """Return the response of the specialist that the router chooses."""
        run = tracereel.current_execution()
        self.trace_id = run.trace_id or None
        self._deadline = self._clock() + TIME_LIMIT_SECONDS
        state = self._graph.invoke(
            {"messages": [HumanMessage(prompt)], "attachments": attachments},
            {"recursion_limit": RECURSION_LIMIT, "configurable": {"thread_id": session_id}},
        )
        run.set(outcome=state["active_agent"])
        return str(state["messages"][-1].content)

    def _route(self, state: OrchestratorState) -> OrchestratorState:
        routing = route(
            str(state["messages"][-1].content),
            attachments=state.get("attachments", []),
            ask=self._ask_router,
        )
        tracereel.record_decision(**routing.as_decision())
        return {"active_agent": routing.chosen}

    def _ask_router(self, text: str) -> str:
        said = str(self._models["router"].invoke([HumanMessage(text)]).content)
        return said if said in AGENTS else GENERAL

    def _check_time(self) -> None:
        if self._clock() > self._deadline:
            raise TimeoutError("five minutes are over")

    def _specialist(self, name: str, tools: list[BaseTool]) -> Any:
        """Build a subgraph that calls the model and its tools until it requests none."""
        known = {each.name: each for each in tools}

        def reason(state: OrchestratorState) -> OrchestratorState:
            self._check_time()
            asked = sum(isinstance(each, AIMessage) for each in state["messages"])
            tracereel.current_execution().round(limit=MAX_ITERATIONS)
            if asked >= MAX_ITERATIONS:
                return {"messages": [AIMessage(TOO_MANY)]}
            return {"messages": [self._models[name].invoke(state["messages"])]}

        def act(state: OrchestratorState) -> OrchestratorState:
            self._check_time()
            calls = getattr(state["messages"][-1], "tool_calls", ())
            return {"messages": [_called(known, call) for call in calls]}

        builder = StateGraph(OrchestratorState)
        builder.add_node("reason", reason)
        builder.add_node("act", act)
        builder.add_edge(START, "reason")
        builder.add_conditional_edges("reason", _wants_tools, {True: "act", False: END})
        builder.add_edge("act", "reason")
        return builder.compile(name=name)


_on_duty: ContextVar[Orchestrator | None] = ContextVar("tracereel_demo", default=None)


@contextmanager
def on_duty(orchestrator: Orchestrator) -> Iterator[None]:
    """Use an orchestrator for all requests in the block."""
    token = _on_duty.set(orchestrator)
    try:
        yield
    finally:
        _on_duty.reset(token)


@tracereel.traced_pipeline(PIPELINE, agents=["orchestrator", *AGENTS])
def answer(prompt: str, *, attachments: list[str], session_id: str) -> str:
    """Respond to a request."""
    return (_on_duty.get() or _usual(prompt)).say(prompt, attachments, session_id)


def _usual(prompt: str) -> Orchestrator:
    """Return an orchestrator with the scripted models of a request, for a replay."""
    return Orchestrator(models_for(prompt))


def route(text: str, *, attachments: list[str], ask: Callable[[str], str]) -> Routing:
    """Route a request by command, else by keyword, attachment or model."""

    def chosen(agent: str, rule: Rule, matched: str | None) -> Routing:
        return Routing(candidates=AGENTS, chosen=agent, rule=rule, matched=matched)

    lowered = text.lower()
    command = lowered.split(" ", 1)[0]
    if command in COMMANDS:
        return chosen(COMMANDS[command], "slash_command", command)
    word = next((each for each in ORDER_WORDS if each in lowered), None)
    if word is not None:
        return chosen(ORDERS, "keyword", word)
    if attachments:
        return chosen(DOCUMENTS, "attachment", attachments[0])
    return chosen(ask(text), "model", None)


def _active(state: OrchestratorState) -> str:
    return state["active_agent"]


def _wants_tools(state: OrchestratorState) -> bool:
    return bool(getattr(state["messages"][-1], "tool_calls", ()))


def _called(tools: Mapping[str, BaseTool], call: Any) -> ToolMessage:
    known = tools.get(call["name"])
    if known is None:
        return ToolMessage(f"there is no tool {call['name']}", tool_call_id=call["id"])
    answer: ToolMessage = known.invoke({**call, "type": "tool_call"})
    return answer
