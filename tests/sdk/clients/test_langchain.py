"""LangChain and LangGraph with real models over HTTP: recorded callbacks."""

import asyncio
import operator
from typing import Annotated, TypedDict

import openai
import pytest
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.language_models.llms import create_base_retry_decorator
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from tests.sdk.clients.reading import LLM, MESSAGES, RETRY, STEP, only_call, told
from tests.sdk.clients.standin import BROKEN
from tracereel import current_execution, record_decision, traced_agent
from tracereel.integrations import langgraph
from tracereel.integrations.langchain import TracereelHandler, instrument, uninstrument
from tracereel.integrations.openai import instrument as instrument_openai
from tracereel.integrations.openai import uninstrument as uninstrument_openai

DONE = "agent.execution.completed"
TOOL = "agent.tool.called"
SERVED = "gpt-4o-mini-2024-07-18"


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    record_decision("weather_source", reasoning="the only one")
    return f"sunny in {city}"


@tool
def broken_tool(city: str) -> str:
    """A tool that fails."""
    raise LookupError(city)


class Library(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [Document(id="law-1", page_content=query), Document(id="law-2", page_content="b")]


class State(TypedDict):
    city: str


@pytest.fixture
def model(standin):
    with openai.DefaultHttpxClient() as client:
        yield ChatOpenAI(
            model="gpt-test",
            api_key="k",
            base_url=f"{standin.url}/v1",
            temperature=0.1,
            max_retries=2,
            http_client=client,
            http_async_client=openai.DefaultAsyncHttpxClient(),
        )


def in_a_loop(model, work):
    """The framework leaves connections open: close them before their event loop."""

    async def run():
        try:
            return await work
        finally:
            await model.http_async_client.aclose()

    return asyncio.run(run())


@pytest.fixture
def config():
    return {"callbacks": [TracereelHandler()]}


def by_name(events, name):
    return [event for event in events.get_events(STEP) if event["step_name"] == name]


def test_a_chat_model_is_a_call_of_a_model(model, config, events):
    answer = model.invoke("Weather in Lima?", config)

    assert answer.content == "It is sunny in Lima."
    call = only_call(events)
    assert (call["llm_provider"], call["llm_model"]) == ("openai", SERVED)
    assert (call["llm_model_requested"], call["temperature"]) == ("gpt-test", 0.1)
    assert (call["llm_prompt_tokens"], call["llm_completion_tokens"]) == (120, 30)
    assert (call["llm_cached_tokens"], call["llm_reasoning_tokens"]) == (40, 8)
    assert call["finish_reason"] == "stop"
    assert told(events) == ["assistant_message"]


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_a_streamed_answer_has_its_first_token_and_its_tokens(way, model, config, events):
    async def read():
        return "".join([part.text async for part in model.astream("Weather?", config)])

    if way == "stream":
        text = "".join(part.text for part in model.stream("Weather?", config, stream_usage=True))
    else:
        text = in_a_loop(model, read())

    assert text == "It is sunny in Lima."
    call = only_call(events)
    assert (call["was_streamed"], call["status"]) == (True, "success")
    assert 0 <= call["time_to_first_token_ms"] <= call["duration_ms"]
    assert call["output_items"] > 1
    assert call["longest_gap_ms"] >= 0
    assert call["tokens_per_second"] > 0
    assert call["llm_model"] == SERVED
    assert events.get_events(MESSAGES)[0]["content"] == "It is sunny in Lima."


def test_provider_name_is_taken_from_the_model(standin, config, events):
    model = ChatAnthropic(model="claude-test", api_key="k", base_url=standin.url)

    model.invoke("Weather?", config)
    model._client.close()

    call = only_call(events)
    assert (call["llm_provider"], call["llm_prompt_tokens"]) == ("anthropic", 370)
    assert call["tool_call_ids"] == ["toolu_1"]
    assert told(events) == ["assistant_message", "tool_request"]


def test_a_chain_with_nothing_around_it_is_an_agent(model, config, events):
    chain = ChatPromptTemplate.from_template("Weather in {city}?") | model | StrOutputParser()

    assert chain.invoke({"city": "Lima"}, {**config, "run_name": "forecast"}) == (
        "It is sunny in Lima."
    )

    (done,) = events.get_events(DONE)
    assert (done["agent_name"], done["llm_tokens_used"]) == ("forecast", 150)
    assert only_call(events)["parent_span_id"] == done["span_id"]


def test_a_chain_inside_a_traced_agent_is_a_step_of_it(model, config, events):
    chain = RunnableLambda(lambda text: text) | model

    @traced_agent("outer")
    def ask():
        chain.invoke("Weather?", config)

    ask()

    (done,) = events.get_events(DONE)
    (step,) = events.get_events(STEP)
    assert (done["agent_name"], step["parent_span_id"]) == ("outer", done["span_id"])
    assert only_call(events)["parent_span_id"] == step["span_id"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream"])
def test_an_agent_has_nodes_as_steps_and_tools_paired_with_what_asked_for_them(
    way, model, config, events
):
    agent = create_agent(model, [get_weather], name="forecaster")
    asked = {"messages": [{"role": "user", "content": "Weather in Lima?"}]}

    if way == "invoke":
        result = agent.invoke(asked, config)
        assert result["messages"][-1].content == "It is sunny in Lima."
    elif way == "stream":
        for _ in agent.stream(asked, config, stream_mode="messages"):
            assert not current_execution()
    else:
        in_a_loop(model, agent.ainvoke(asked, config))

    (done,) = events.get_events(DONE)
    assert (done["agent_name"], done["llm_tokens_used"]) == ("forecaster", 300)
    first, second = events.get_events(LLM)
    assert (first["agent_name"], second["agent_name"]) == ("forecaster", "forecaster")
    (call,) = events.get_events(TOOL)
    assert (call["tool_name"], call["tool_call_id"]) == ("get_weather", "call_1")
    assert first["tool_call_ids"] == ["call_1"]
    assert (call["arguments"], call["result"]) == ({"city": "Lima"}, "sunny in Lima")
    (decision,) = events.get_events("agent.decision.recorded")
    assert (decision["agent_name"], decision["span_id"]) == ("forecaster", call["span_id"])
    models, tools = by_name(events, "model"), by_name(events, "tools")
    assert (len(models), len(tools)) == (2, 1)
    assert [step["parent_span_id"] for step in models] == [done["span_id"]] * 2
    assert call["parent_span_id"] == tools[0]["span_id"]
    assert done["trace_event_count"] == len(events)


def test_a_tool_that_fails_fails_with_its_error(config, events):
    with pytest.raises(LookupError):
        broken_tool.invoke({"city": "Lima"}, config)

    (call,) = events.get_events(TOOL)
    assert (call["status"], call["error_type"]) == ("failed", "LookupError")


def test_a_search_has_its_query_and_documents(config, events):
    Library().invoke("paternity", config)

    (search,) = events.get_events("agent.retrieval.completed")
    assert (search["retrieval_name"], search["query"]) == ("Library", "paternity")
    assert [each["id"] for each in search["documents"]] == ["law-1", "law-2"]


def test_an_error_is_the_models_the_steps_and_the_agents(model, standin, config, events):
    standin.will(BROKEN, BROKEN, BROKEN)
    agent = create_agent(model, [], name="forecaster")

    with pytest.raises(openai.APIError, match="out of order") as raised:
        agent.invoke({"messages": [{"role": "user", "content": "Weather?"}]}, config)

    assert only_call(events)["status"] == "failed"
    assert by_name(events, "model")[0]["status"] == "failed"
    (failed,) = events.get_events("agent.execution.failed")
    assert (failed["agent_name"], failed["error_type"]) == (
        "forecaster",
        type(raised.value).__name__,
    )


class Flaky(GenericFakeChatModel):
    """Model that retries by itself, like LangChain's own."""

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        tries = iter([ConnectionError("away"), ConnectionError("still away"), None])

        @create_base_retry_decorator([ConnectionError], max_retries=3, run_manager=run_manager)
        def ask():
            if (trouble := next(tries)) is not None:
                raise trouble
            return super(Flaky, self)._generate(messages, stop, run_manager, **kwargs)

        return ask()


def test_model_retries_are_recorded(config, events, monkeypatch):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _seconds: None)

    answer = Flaky(messages=iter([AIMessage("here")])).invoke("Are you there?", config)

    assert answer.content == "here"
    first, second = events.get_events(RETRY)
    assert (first["original_error"], first["retry_attempt"]) == ("ConnectionError: away", 1)
    assert second["retry_attempt"] == 2
    assert first["delay_seconds"] > 0
    assert only_call(events)["attempt"] == 3


def graph_that_asks():
    def look(state: State):
        return {"city": state["city"].title()}

    def confirm(state: State):
        return {"city": state["city"] if interrupt({"really": state["city"]}) else "nowhere"}

    graph = StateGraph(State).add_node("look", look).add_node("confirm", confirm)
    graph.add_edge(START, "look").add_edge("look", "confirm").add_edge("confirm", END)
    return graph.compile(checkpointer=InMemorySaver(), name="planner")


def test_an_interrupt_is_a_wait_for_a_person_and_ends_when_they_answer(events):
    graph = langgraph.wrap(graph_that_asks())
    thread = {"configurable": {"thread_id": "chat-7"}}

    graph.invoke({"city": "lima"}, thread)

    (paused,) = events.get_events(DONE)
    assert (paused["agent_name"], paused["stage"]) == ("planner", "waiting_for_a_person")
    assert paused["session_id"] == "chat-7"
    (step,) = by_name(events, "confirm")
    assert (step["status"], step["output_summary"]) == ("success", "waiting_for_a_person")
    (asked,) = events.get_events(MESSAGES)
    assert asked["message_type"] == "approval_requested"
    assert asked["approval"]["question"] == {"really": "Lima"}
    assert events.get_events("agent.execution.failed") == []

    graph.invoke(Command(resume=True), thread)

    resolved = events.get_events(MESSAGES)[-1]
    assert (resolved["message_type"], resolved["approval"]["id"]) == (
        "approval_resolved",
        asked["approval"]["id"],
    )
    assert resolved["approval"]["approved"] is True
    assert resolved["waited_seconds"] >= 0


def test_an_answer_to_one_of_two_questions_leaves_the_other_waiting(events):
    class Answers(TypedDict):
        given: Annotated[list, operator.add]

    graph = StateGraph(Answers)
    for name in ("ship", "pay"):
        graph.add_node(name, lambda _state, name=name: {"given": [interrupt(f"{name}?")]})
        graph.add_edge(START, name).add_edge(name, END)
    graph = langgraph.wrap(graph.compile(checkpointer=InMemorySaver()))
    thread = {"configurable": {"thread_id": "chat-8"}}

    def messages():
        return events.get_events(MESSAGES)

    def approvals():
        return [
            (each["message_type"], each["approval"]["question"], each["approval"]["approved"])
            for each in messages()
        ]

    asked = graph.invoke({"given": []}, thread)["__interrupt__"]
    ids = {each.value: each.id for each in asked}
    graph.invoke(Command(resume={ids["ship?"]: True}), thread)

    assert sorted(approvals()[:2]) == [
        ("approval_requested", "pay?", None),
        ("approval_requested", "ship?", None),
    ]
    assert approvals()[2:] == [("approval_resolved", "ship?", True)]

    graph.invoke(Command(resume={ids["pay?"]: False}), thread)

    assert approvals()[3:] == [("approval_resolved", "pay?", False)]
    began = {each["approval"]["id"]: each["approval"]["requested_at"] for each in messages()[:2]}
    last = messages()[-1]["approval"]
    assert last["requested_at"] == began[ids["pay?"]]


def test_unanswered_interrupt_is_replaced_by_the_next_one(events):
    graph = langgraph.wrap(graph_that_asks())
    thread = {"configurable": {"thread_id": "chat-9"}}

    graph.invoke({"city": "lima"}, thread)
    graph.invoke({"city": "cusco"}, thread)
    graph.invoke(Command(resume=True), thread)

    resolved = [
        each["approval"]["question"]
        for each in events.get_events(MESSAGES)
        if each["message_type"] == "approval_resolved"
    ]
    assert resolved == [{"really": "Cusco"}]


def test_a_graph_in_a_graph_is_an_agent_of_its_own(model, config, events):
    specialist = create_agent(model, [], name="specialist")

    def route(state: State):
        specialist.invoke({"messages": [{"role": "user", "content": state["city"]}]})
        return state

    outer = StateGraph(State).add_node("route", route).add_edge(START, "route")
    outer.compile(name="orchestrator").invoke({"city": "Lima"}, config)

    inner, around = events.get_events(DONE)
    assert (inner["agent_name"], around["agent_name"]) == ("specialist", "orchestrator")
    (step,) = by_name(events, "route")
    assert inner["parent_span_id"] == step["span_id"]
    assert only_call(events)["agent_name"] == "specialist"


def test_everything_is_recorded_between_instrument_and_uninstrument(model, config, events):
    instrument()
    instrument()
    try:
        model.invoke("Weather?")
        model.invoke("Weather?", config)
        assert len(events.get_events(LLM)) == 2
    finally:
        uninstrument()
    model.invoke("Weather?")

    assert len(events.get_events(LLM)) == 2


@pytest.mark.filterwarnings("ignore:Unexpected type for token usage")  # LangChain's own warning
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "batch", "generate"])
def test_call_recorded_by_handler_and_client_is_deduplicated(way, model, config, events, standin):
    """With the handler and the client's own hooks on; data that only the client sees is recorded too."""
    instrument_openai()
    try:
        standin.will(BROKEN)
        if way == "invoke":
            model.invoke("Weather?", config)
        elif way == "ainvoke":
            in_a_loop(model, model.ainvoke("Weather?", config))
        elif way == "stream":
            for number, _ in enumerate(model.stream("Weather?", config)):
                if number == 0:
                    model.root_client.chat.completions.create(
                        model="another", messages=[{"role": "user", "content": "Wind?"}]
                    )
        elif way == "batch":
            model.batch(["Weather?", "Wind?"], config)
        else:
            model.generate([[HumanMessage("Weather?")], [HumanMessage("Wind?")]], **config)
    finally:
        uninstrument_openai()

    calls = events.get_events(LLM)
    assert len(calls) == (1 if way in ("invoke", "ainvoke") else 2)
    assert sum(call.get("retry_count") or 0 for call in calls) == 1
    assert len(events.get_events(RETRY)) == 1
    assert {call["llm_tokens_used"] for call in calls} == {150}
    assert {call["llm_provider"] for call in calls} == {"openai"}
    assert {call["llm_tokens_remaining"] for call in calls} == {1234}


def test_without_the_handler_the_client_records_the_call_alone(model, events):
    instrument_openai()
    try:
        model.invoke("Weather?")
    finally:
        uninstrument_openai()

    assert only_call(events)["llm_tokens_used"] == 150


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_traced_agent_inside_a_node_has_its_own_calls(way, model, config, events):
    @traced_agent("specialist")
    def ask():
        return model.invoke("Weather?", config)

    @traced_agent("specialist")
    async def ask_async():
        return await model.ainvoke("Weather?")

    def route(state: State) -> State:
        ask()
        model.invoke("And the wind?", config)
        return state

    async def route_async(state: State) -> State:
        await ask_async()
        await model.ainvoke("And the wind?")
        return state

    graph = StateGraph(State)
    graph.add_node("route", route if way == "invoke" else route_async)
    graph.add_edge(START, "route")
    graph.add_edge("route", END)
    compiled = graph.compile(name="orchestrator")
    if way == "invoke":
        compiled.invoke({"city": "Lima"}, config)
    else:
        in_a_loop(model, compiled.ainvoke({"city": "Lima"}, config))

    inner, _around = events.get_events(DONE)
    (step,) = by_name(events, "route")
    assert [each["agent_name"] for each in events.get_events(LLM)] == ["specialist", "orchestrator"]
    first, second = events.get_events(LLM)
    assert first["parent_span_id"] == inner["span_id"]
    assert second["parent_span_id"] == step["span_id"]
    assert inner["parent_span_id"] == step["span_id"]
    assert inner["llm_tokens_used"] == 150


def test_a_stream_of_a_graph_that_is_left_does_not_stay_current(model, config, events):
    agent = create_agent(model, [get_weather], name="forecaster")
    asked = {"messages": [{"role": "user", "content": "Weather in Lima?"}]}

    for _ in agent.stream(asked, config):
        break

    assert not current_execution()


def test_internal_errors_never_reach_the_program(model, config, events, monkeypatch):
    monkeypatch.delenv("TRACEREEL_RAISE_INTERNAL_ERRORS")
    monkeypatch.setattr(config["callbacks"][0], "_runs", None)

    assert model.invoke("Weather?", config).content == "It is sunny in Lima."


def test_wrapping_an_unsupported_object_is_a_type_error():
    with pytest.raises(TypeError, match="compiled graph"):
        langgraph.wrap(object())


def test_state_of_finished_runs_is_released(model, config, events):
    agent = create_agent(model, [get_weather], name="forecaster")
    agent.invoke({"messages": [{"role": "user", "content": "Weather in Lima?"}]}, config)

    assert len(config["callbacks"][0]._runs._runs) == 0
    assert events.get_events(RETRY) == []
