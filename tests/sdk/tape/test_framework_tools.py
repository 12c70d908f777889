"""Tools of frameworks are boundaries without our handlers, or a replay refuses to start."""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tracereel
from tracereel import traced_agent, traced_tool
from tracereel._core import framework_tools, replay_guard
from tracereel.errors import NotAllowedError
from tracereel.tape import Tape, TapeError, fork, parse

sent: list[Any] = []
changed: set[str] = set()


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    sent.clear()
    changed.clear()
    yield
    sent.clear()


def _langchain() -> Callable[[str], Any]:
    from langchain_core.tools import tool

    @tool
    def wire(amount: int) -> str:
        """Send money."""
        sent.append(amount)
        return f"sent {amount}"

    @traced_agent("payer")
    def pay(text: str) -> Any:
        amount = 2 if "argument" in changed else 1
        return wire.invoke({"amount": amount})

    return pay


def _langchain_async() -> Callable[[str], Any]:
    from langchain_core.tools import tool

    @tool
    async def wire(amount: int) -> str:
        """Send money."""
        sent.append(amount)
        return f"sent {amount}"

    @traced_agent("payer")
    async def pay(text: str) -> Any:
        return await wire.ainvoke({"amount": 2 if "argument" in changed else 1})

    return lambda text: asyncio.run(pay(text))


def _agents() -> Callable[[str], Any]:
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    @function_tool
    def wire(amount: int) -> str:
        """Send money."""
        sent.append(amount)
        return f"sent {amount}"

    class Scripted(Model):
        async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
            items = kwargs.get("input", args[1] if len(args) > 1 else "")
            output: Any
            if isinstance(items, str) or not any(
                each.get("type") == "function_call_output" for each in items
            ):
                amount = 2 if "argument" in changed else 1
                output = ResponseFunctionToolCall(
                    arguments=json.dumps({"amount": amount}),
                    call_id="c1",
                    name="wire",
                    type="function_call",
                )
            else:
                text = ResponseOutputText(text="done", type="output_text", annotations=[])
                output = ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message"
                )
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    agent = Agent(name="payer", model=Scripted(), tools=[wire])

    @traced_agent("payer")
    async def pay(text: str) -> Any:
        quiet = RunConfig(tracing_disabled=True)
        return (await Runner.run(agent, text, run_config=quiet)).final_output

    return lambda text: asyncio.run(pay(text))


def _pydantic_ai() -> Callable[[str], Any]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: Any, info: Any) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        amount = 2 if "argument" in changed else 1
        return ModelResponse(parts=[ToolCallPart("wire", {"amount": amount}, tool_call_id="c1")])

    agent = Agent(FunctionModel(answer))

    @agent.tool_plain
    def wire(amount: int) -> str:
        """Send money."""
        sent.append(amount)
        return f"sent {amount}"

    @traced_agent("payer")
    async def pay(text: str) -> Any:
        return (await agent.run(text)).output

    return lambda text: asyncio.run(pay(text))


def _pydantic_ai_output() -> Callable[[str], Any]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: Any, info: Any) -> ModelResponse:
        amount = 2 if "argument" in changed else 1
        name = info.output_tools[0].name
        return ModelResponse(parts=[ToolCallPart(name, {"amount": amount}, tool_call_id="c1")])

    def wire(amount: int) -> str:
        """Send money."""
        sent.append(amount)
        return f"sent {amount}"

    agent = Agent(FunctionModel(answer), output_type=wire)

    @traced_agent("payer")
    async def pay(text: str) -> Any:
        return (await agent.run(text)).output

    return lambda text: asyncio.run(pay(text))


def _mcp(wrapped: bool = False) -> Callable[[str], Any]:
    import mcp
    from mcp.server.mcpserver import MCPServer

    from tracereel.integrations.mcp import wrap

    server = MCPServer("bank")

    @server.tool()
    def wire(amount: int) -> str:
        """Send money."""
        sent.append(amount)
        return f"sent {amount}"

    @traced_agent("payer")
    async def pay(text: str) -> Any:
        async with mcp.Client(server) as client:
            if wrapped:
                wrap(client)
            found = await client.call_tool("wire", {"amount": 2 if "argument" in changed else 1})
            return found.content[0].text

    return lambda text: asyncio.run(pay(text))


def _mcp_wrapped() -> Callable[[str], Any]:
    return _mcp(wrapped=True)


FRAMEWORKS = [
    _langchain,
    _langchain_async,
    _agents,
    _pydantic_ai,
    _pydantic_ai_output,
    _mcp,
    _mcp_wrapped,
]


@pytest.fixture(params=FRAMEWORKS, ids=lambda made: made.__name__.strip("_"))
def program(request: Any) -> Any:
    return request.param()


@pytest.fixture
def tape(program: Any, taped: Any) -> Tape:
    found: Tape = taped(lambda: program("pay"))[1]
    assert sent == [1]
    sent.clear()
    return found


def test_the_tool_is_recorded_and_served(program: Any, tape: Tape) -> None:
    assert [(call.kind, call.name) for call in tape.boundaries()] == [("tool", "wire")]
    assert tape.state == "yes", tape.reasons

    with tracereel.replay(tape) as run:
        program("pay")

    assert run.report.verdict == "same", str(run.report)
    assert sent == []


def test_changed_arguments_are_a_change(program: Any, tape: Tape) -> None:
    changed.add("argument")
    run = tracereel.replay(tape, mode="report")
    with run:
        program("pay")

    assert run.report.verdict == "changed"
    assert run.report.first is not None
    assert run.report.first.kind == "changed"
    assert sent == []


def test_a_fork_refuses_the_tool(program: Any, tape: Tape) -> None:
    run = fork(tape, at=1)
    with contextlib.suppress(NotAllowedError), run:
        program("pay")

    assert run.report.refused
    assert sent == []
    with fork(tape, at=1, allow=["wire"]):
        program("pay")
    assert sent == [1]


def test_the_tool_is_refused_outside_of_the_replay(program: Any, tape: Tape) -> None:
    raised: list[BaseException] = []

    def work() -> None:
        try:
            program("pay")
        except BaseException as error:
            raised.append(error)

    with replay_guard.installed():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert sent == []
    assert raised
    error = raised[0]
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, NotAllowedError)


def test_a_traced_function_is_the_boundary_itself(taped: Any) -> None:
    from langchain_core.tools import tool

    @tool
    @traced_tool("wire_traced", effect="irreversible")
    def wire(amount: int) -> str:
        """Send money."""
        sent.append(amount)
        return "sent"

    @traced_agent("payer")
    def pay() -> Any:
        return wire.invoke({"amount": 1})

    _, tape = taped(pay)
    assert [call.name for call in tape.boundaries()] == ["wire_traced"]


def test_a_framework_that_cannot_be_served_stops_the_replay(
    tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "crewai", types.ModuleType("crewai"))
    run = tracereel.replay(tape)

    with pytest.raises(TapeError, match="CrewAI is in use"), run:
        pytest.fail("it began")
    assert run.report.verdict == "inconclusive"


def test_a_framework_that_is_imported_during_a_guarded_run_is_refused(tmp_path: Path) -> None:
    with replay_guard.installed(), pytest.raises(NotAllowedError, match="CrewAI is in use"):
        __import__("crewai")


def test_a_framework_that_is_imported_in_a_replayed_run_is_refused(tape: Tape) -> None:
    with pytest.raises(NotAllowedError, match="CrewAI is in use"), tracereel.replay(tape):
        __import__("crewai")

    with pytest.raises(ModuleNotFoundError):
        __import__("crewai")


IMPORTS_LATER = """
import sys
sys.path.insert(0, {root!r})
from tests.support.replay_trial import recording
from tracereel.tape import parse

if sys.argv[1] == "record":
    import payer
    with recording() as events:
        payer.pay("pay")
    parse(events).save("run.tape.ndjson")
else:
    import tracereel
    from tracereel.tape import load
    with tracereel.replay(load("run.tape.ndjson")) as run:
        run.call()
    print(run.report.verdict)
"""
PAYER = """
from langchain_core.tools import tool
from tracereel import traced_agent


@tool
def wire(amount: int) -> str:
    \"\"\"Send money.\"\"\"
    print("sent")
    return "sent"


@traced_agent("payer")
def pay(text: str) -> str:
    return wire.invoke({"amount": 1})
"""


def test_a_framework_that_the_replayed_program_imports_is_served(tmp_path: Path) -> None:
    (tmp_path / "payer.py").write_text(PAYER)
    script = IMPORTS_LATER.format(root=str(Path(__file__).parents[3]))
    done = [
        subprocess.run(
            [sys.executable, "-c", script, what],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for what in ("record", "replay")
    ]

    assert done == [["sent"], ["same"]]


def test_an_unknown_version_of_a_framework_stops_the_replay(
    tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(framework_tools.HOMES, "json", "tracereel.integrations._no_such_home")
    monkeypatch.setattr(framework_tools, "problems", {})

    with pytest.raises(TapeError, match="this version is not supported"), tracereel.replay(tape):
        pytest.fail("it began")


def test_tapes_can_be_parsed_again(tape: Tape) -> None:
    assert parse(list(tape.lines())).tape_id == tape.tape_id
