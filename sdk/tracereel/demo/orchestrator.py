"""A LangGraph orchestrator: a router, and two specialists that reason and act in turn.

Graphs, nodes, models and tools are recorded by `wrap`; the router says itself how it decided, and each
specialist when a round of its loop begins. The run begins with a function of this module, `answer`, so that
`tracereel replay` can call it again.
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
from tracereel.integrations.langgraph import wrap
from tracereel.providers.routing import Routing, Rule

PIPELINE: Final = "support_desk"
MAX_ITERATIONS: Final = 10
RECURSION_LIMIT: Final = 50
TIME_LIMIT_SECONDS: Final = 300.0

ORDERS: Final = "orders_agent"
DOCUMENTS: Final = "documents_agent"
GENERAL: Final = "general_agent"
AGENTS: Final = (ORDERS, DOCUMENTS, GENERAL)
COMMANDS: Final = {"/orders": ORDERS, "/docs": DOCUMENTS, "/search": DOCUMENTS}
ORDER_WORDS: Final = ("order", "invoice", "customer", "stock")
TOO_MANY: Final = "I could not finish this in ten rounds."


class State(TypedDict, total=False):
    """What the nodes hand on."""

    messages: Annotated[list[AnyMessage], add_messages]
    attachments: list[str]
    active_agent: str


@tool
def find_orders(customer: str) -> str:
    """The open orders of a customer."""
    return f"{customer}: order 1042 (shipped), order 1077 (waiting for stock)"


@tool
def get_invoice(order: str) -> str:
    """The invoice of an order."""
    return f"order {order}: 180.00 EUR, paid"


@tool
def search_documents(query: str) -> str:
    """Passages of the documents that have these words."""
    return f"returns.pdf, page 2: about {query}"


for _tool in (find_orders, get_invoice, search_documents):
    _tool.metadata = {"effect": "read"}  # it may run in a fork

Models = Mapping[str, BaseChatModel]
"""By the agent that asks them; the router's under `router`."""


class Orchestrator:
    """The graph, and the pipeline around one run of it."""

    def __init__(self, models: Models, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._models = models
        self._clock = clock
        self._deadline = 0.0
        builder = StateGraph(State)
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
        # Between steps the specialists look at the clock; this is for a step that hangs.
        graph.step_timeout = TIME_LIMIT_SECONDS
        self._graph = wrap(graph)
        self.trace_id: str | None = None
        """The trace of the latest request."""

    def say(self, prompt: str, attachments: list[str], session_id: str) -> str:
        """What the specialist says whom the router has chosen."""
        run = tracereel.current_execution()
        self.trace_id = run.trace_id or None
        self._deadline = self._clock() + TIME_LIMIT_SECONDS
        state = self._graph.invoke(
            {"messages": [HumanMessage(prompt)], "attachments": attachments},
            {"recursion_limit": RECURSION_LIMIT, "configurable": {"thread_id": session_id}},
        )
        run.set(outcome=state["active_agent"])
        return str(state["messages"][-1].content)

    def _route(self, state: State) -> State:
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
        """A graph of its own: ask the model, call the tools it wants, until it wants none."""
        known = {each.name: each for each in tools}

        def reason(state: State) -> State:
            self._check_time()
            asked = sum(isinstance(each, AIMessage) for each in state["messages"])
            tracereel.current_execution().round(limit=MAX_ITERATIONS)
            if asked >= MAX_ITERATIONS:
                return {"messages": [AIMessage(TOO_MANY)]}
            return {"messages": [self._models[name].invoke(state["messages"])]}

        def act(state: State) -> State:
            self._check_time()
            calls = getattr(state["messages"][-1], "tool_calls", ())
            return {"messages": [_called(known, call) for call in calls]}

        builder = StateGraph(State)
        builder.add_node("reason", reason)
        builder.add_node("act", act)
        builder.add_edge(START, "reason")
        builder.add_conditional_edges("reason", _wants_tools, {True: "act", False: END})
        builder.add_edge("act", "reason")
        return builder.compile(name=name)


_on_duty: ContextVar[Orchestrator | None] = ContextVar("tracereel_demo", default=None)


@contextmanager
def on_duty(orchestrator: Orchestrator) -> Iterator[None]:
    """Have an orchestrator take the requests that come meanwhile."""
    token = _on_duty.set(orchestrator)
    try:
        yield
    finally:
        _on_duty.reset(token)


@tracereel.traced_pipeline(PIPELINE, agents=["orchestrator", *AGENTS])
def answer(prompt: str, *, attachments: list[str], session_id: str) -> str:
    """Have somebody answer."""
    return (_on_duty.get() or _usual(prompt)).say(prompt, attachments, session_id)


def _usual(prompt: str) -> Orchestrator:
    """With models that know the request: for a replay, where nobody has brought any."""
    from tracereel.demo.run_orchestrator import models_for

    return Orchestrator(models_for(prompt))


def route(text: str, *, attachments: list[str], ask: Callable[[str], str]) -> Routing:
    """Whom a request goes to: by command, else by its words, else by what is attached, else by a model."""

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


def _active(state: State) -> str:
    return state["active_agent"]


def _wants_tools(state: State) -> bool:
    return bool(getattr(state["messages"][-1], "tool_calls", ()))


def _called(tools: Mapping[str, BaseTool], call: Any) -> ToolMessage:
    known = tools.get(call["name"])
    if known is None:
        return ToolMessage(f"there is no tool {call['name']}", tool_call_id=call["id"])
    answer: ToolMessage = known.invoke({**call, "type": "tool_call"})
    return answer
