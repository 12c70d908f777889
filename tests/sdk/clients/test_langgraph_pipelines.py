"""LangGraph's graphs inside of a pipeline, whatever built them."""

from typing import TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph

from tests.sdk.clients.reading import STEP
from tracereel import traced_pipeline
from tracereel.integrations import langgraph
from tracereel.integrations.langchain import TracereelHandler

DONE = "agent.execution.completed"


class State(TypedDict):
    city: str


def created():
    model = GenericFakeChatModel(messages=iter([AIMessage(content="It is sunny.")]))
    return create_agent(model, [], name="forecaster")


def compiled():
    return StateGraph(State).add_node("look", lambda state: state).add_edge(START, "look").compile()


def entrypoint_of():
    return entrypoint()(lambda state: state)


@pytest.mark.parametrize("way", ["callbacks", "wrap", "with_config"])
@pytest.mark.parametrize("build", [created, compiled, entrypoint_of])
def test_a_graph_inside_of_a_pipeline_is_an_agent(events, build, way):
    made, config = build(), {"callbacks": [TracereelHandler()]}
    given = {"city": "Lima", "messages": [{"role": "user", "content": "Weather?"}]}
    if way == "wrap":
        made, config = langgraph.wrap(made), None
    elif way == "with_config":
        made = made.with_config({"metadata": {"team": "weather"}, "run_name": "renamed"})

    with traced_pipeline("booking"):
        made.invoke(given, config)

    (agent,) = events.get_events(DONE)
    (pipeline,) = events.get_events("agent.pipeline.completed")
    assert agent["agent_name"] in ("forecaster", "LangGraph", "renamed")
    assert agent["parent_span_id"] == pipeline["span_id"]
    assert {step["step_type"] for step in events.get_events(STEP)} == {"node"}
    assert pipeline["agents_succeeded"] == 1
