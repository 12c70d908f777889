"""Runs of frameworks as their documentation writes them have an entry and can be called again."""

import asyncio
from types import ModuleType
from typing import Any

import pytest
from agents import Runner

import tracereel
from tests.sdk.tape.programs import documented_agents, documented_graph, documented_pydantic
from tracereel.tape import Tape, TapeError
from tracereel.tape import format as tape_format

PROGRAMS = [
    pytest.param(documented_graph, "graph", {"input": {"topic": "cats"}}, id="langgraph"),
    pytest.param(documented_agents, "agent", {"input": "Weather?"}, id="agents"),
    pytest.param(documented_pydantic, "agent", {"user_prompt": "Roll!"}, id="pydantic-ai"),
]
QUESTIONS = {documented_graph: "cats", documented_agents: "Weather?", documented_pydantic: "Roll!"}


def recorded(program: ModuleType, taped: Any) -> Tape:
    program.changed.clear()
    tape: Tape = taped(lambda: program.main(QUESTIONS[program]))[1]
    program.ran.clear()
    return tape


def replayed(program: ModuleType, tape: Tape) -> Any:
    with tracereel.replay(tape, mode="report") as run:
        run.call()
    assert program.ran == []
    return run.report


@pytest.mark.parametrize(("program", "variable", "given"), PROGRAMS)
def test_an_undecorated_run_has_an_entry_and_its_input(
    program: Any, variable: str, given: dict[str, Any], taped: Any
) -> None:
    tape = recorded(program, taped)

    assert tape.header["entry"] == f"{program.__name__}:{variable}"
    assert tracereel.replay(tape).entry_arguments(tape) == given
    assert (tape.state, tape.reasons) == ("yes", ())


@pytest.mark.parametrize(("program", "variable", "given"), PROGRAMS)
def test_an_undecorated_run_is_called_again_and_is_the_same(
    program: Any, variable: str, given: dict[str, Any], taped: Any
) -> None:
    tape = recorded(program, taped)

    for _ in range(2):
        report = replayed(program, tape)
        assert (report.verdict, report.not_compared) == ("same", []), str(report)


@pytest.mark.parametrize(
    ("program", "change", "verdict"),
    [
        (documented_graph, "prompt", "prompt_changed"),
        (documented_graph, "argument", "changed"),
        (documented_graph, "output", "changed"),
        (documented_pydantic, "prompt", "prompt_changed"),
        (documented_pydantic, "output", "changed"),
    ],
)
def test_a_change_of_an_undecorated_run_is_found(
    program: Any, change: str, verdict: str, taped: Any
) -> None:
    tape = recorded(program, taped)
    program.changed.add(change)
    try:
        assert replayed(program, tape).verdict == verdict
    finally:
        program.changed.clear()


async def _read(stream: Any) -> list[Any]:
    return [each async for each in stream]


@pytest.mark.parametrize(
    ("program", "run"),
    [
        (documented_graph, lambda graph: asyncio.run(graph.ainvoke({"topic": "x"}))),
        (documented_graph, lambda graph: list(graph.stream({"topic": "x"}, stream_mode="updates"))),
        (documented_graph, lambda graph: asyncio.run(_read(graph.astream({"topic": "x"})))),
        (documented_graph, lambda graph: graph.invoke({"topic": "x"}, {"recursion_limit": 9})),
    ],
    ids=["ainvoke", "stream", "astream", "with a configuration"],
)
def test_every_way_to_run_a_graph_can_be_called_again(program: Any, run: Any, taped: Any) -> None:
    program.changed.clear()
    _, tape = taped(lambda: run(program.graph))
    program.ran.clear()

    assert (tape.state, tape.reasons) == ("yes", ())
    assert replayed(program, tape).verdict == "same"
    program.changed.add("output")
    try:
        assert replayed(program, tape).verdict == "changed"
    finally:
        program.changed.clear()


def test_an_agent_that_is_run_without_a_loop_can_be_called_again(taped: Any) -> None:
    documented_agents.changed.clear()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        _, tape = taped(lambda: Runner.run_sync(documented_agents.agent, "Weather?"))
        documented_agents.ran.clear()
        assert tape.header["framework"] == "openai-agents.run_sync"
        assert replayed(documented_agents, tape).verdict == "same"
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _with_header(tape: Tape, **fields: Any) -> Tape:
    records = [{**each, **fields} if each["r"] == "run" else each for each in tape.records]
    return tape_format.parse([{"tape_id": "t", "part": 0, "records": records}])


@pytest.mark.parametrize(
    "fields",
    [
        {"framework": "os.system"},
        {"framework": "langgraph.get_state"},
        {"framework": "pydantic-ai.run"},
        {"entry": f"{documented_graph.__name__}:builder"},
        {"entry": f"{documented_graph.__name__}:rate"},
        {"entry": "os:environ"},
    ],
)
def test_a_hostile_tape_calls_no_other_method_or_object(fields: dict[str, str], taped: Any) -> None:
    tape = _with_header(recorded(documented_graph, taped), **fields)

    with pytest.raises(TapeError), tracereel.replay(tape) as run:
        run.call()


def test_a_hostile_tape_runs_no_agent_of_another_name(taped: Any) -> None:
    tape = _with_header(recorded(documented_agents, taped), name="Another")

    with pytest.raises(TapeError, match="the tape is of 'Another'"), tracereel.replay(tape) as run:
        run.call()


def test_a_graph_that_is_in_no_variable_of_a_module_is_partly_replayable(taped: Any) -> None:
    _, tape = taped(
        lambda: documented_graph.wrap(documented_graph.builder.compile()).invoke({"topic": "x"})
    )

    assert tape.state == "partly"
    assert tape.reasons == (
        "the run began with langgraph.invoke of an object that no module's variable has",
    )
