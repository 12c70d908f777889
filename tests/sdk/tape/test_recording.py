"""Recording: tape contents, obstacles to replay, and unchanged program behaviour."""

import asyncio
import threading
from typing import Any

import pytest

import tracereel
from tests.sdk.conftest import Child
from tests.support.replay_trial import recording
from tests.support.secret_samples import CORPUS, leaks
from tracereel import carry, traced_agent, traced_llm, traced_step, traced_tool
from tracereel.redaction import Redaction, Rule
from tracereel.tape import boundary, codec
from tracereel.tape import format as tape_format

TAPE = "agent.tape.recorded"


@traced_tool("search", effect="read")
def search(query: str, *, limit: int = 3) -> list[str]:
    return [query] * limit


@traced_tool("broken")
def broken() -> None:
    raise ConnectionError("down")


@traced_agent("entry")
def entry(topic: str, count: int = 1) -> list[Any]:
    return [search(topic) for _ in range(count)]


def values(tape: Any, call: Any) -> Any:
    return codec.decode(tape.data(call.end.value))


def test_nothing_is_recorded_unless_asked_for() -> None:
    @traced_agent("a")
    def agent() -> Any:
        return search("x")

    with recording(record="off") as events:
        agent()

    assert [event for event in events if event["event_type"] == TAPE] == []


def test_a_call_is_recorded_with_arguments_result_and_place(taped: Any) -> None:
    @traced_agent("a")
    def agent(topic: str) -> Any:
        with traced_step("inside"):
            return search(topic, limit=2)

    result, tape = taped(lambda: agent("tea"))
    (call,) = tape.boundaries()

    assert result == ["tea", "tea"]
    assert tape.data(call.arguments) == {"query": "tea", "limit": 2}
    assert values(tape, call) == ["tea", "tea"]
    assert (call.kind, call.name, call.effect) == ("tool", "search", "read")
    assert tape.calls[call.parent].name == "inside"
    assert tape.header["entry"].endswith(
        ":test_a_call_is_recorded_with_arguments_result_and_place.<locals>.agent"
    )
    assert tape.data(tape.calls[1].arguments) == {"topic": "tea"}
    assert tape.state == "yes"


def test_exceptions_and_stream_parts_are_recorded(taped: Any) -> None:
    @traced_llm("m")
    def stream(prompt: str) -> Any:
        yield prompt
        yield {"end": True}

    @traced_agent("a")
    def agent() -> Any:
        parts = list(stream("p"))
        broken()
        return parts

    error, tape = taped(agent)
    first, second = tape.boundaries()

    assert isinstance(error, ConnectionError)
    assert [codec.decode(tape.data(chunk.value)) for chunk in first.chunks] == ["p", {"end": True}]
    assert second.end.how == "raised"
    assert isinstance(values(tape, second), ConnectionError)
    assert tape.closed["how"] == "raised"


def test_a_call_inside_a_call_is_recorded_and_not_served(taped: Any) -> None:
    @traced_tool("outer")
    def outer() -> Any:
        return search("inner")

    @traced_agent("a")
    def agent() -> Any:
        return outer()

    _, tape = taped(agent)

    assert [call.name for call in tape.boundaries()] == ["outer"]
    assert [call.name for call in tape.calls.values()] == ["a", "outer", "search"]


def test_results_that_cannot_be_kept_make_the_run_partly_replayable(taped: Any) -> None:
    @traced_tool("open")
    def opens() -> Any:
        return threading.Lock()

    @traced_agent("a")
    def agent() -> Any:
        return bool(opens())

    _, tape = taped(agent)

    assert tape.state == "partly"
    assert tape.reasons == (
        "a result of open could not be kept: _thread:lock is of a type that is not known",
    )


def test_arguments_that_cannot_be_kept_do_not_matter(taped: Any) -> None:
    @traced_tool("uses")
    def uses(lock: Any, n: int) -> int:
        return n

    @traced_agent("a")
    def agent() -> Any:
        return uses(threading.Lock(), 3)

    _, tape = taped(agent)

    assert tape.state == "yes"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"capture_content": False}, "capture_content is off"),
        ({"redaction": Redaction(fields={"result": "drop"})}, "does drop result"),
    ],
)
def test_a_program_that_keeps_content_to_itself_has_no_tape(
    taped: Any, settings: Any, reason: str
) -> None:
    @traced_agent("a")
    def agent() -> Any:
        return search("x")

    _, tape = taped(agent, **settings)

    assert tape.state == "no"
    assert reason in tape.reasons[0]
    assert tape.boundaries() == []


def test_no_secret_reaches_a_tape() -> None:
    @traced_tool("echo")
    def echo(text: str, password: str) -> Any:
        return {"said": text, "api_key": password, "raw": text.encode()}

    @traced_agent("a")
    def agent(text: str) -> Any:
        return echo(text, text)

    with recording() as events:
        for _, sample in CORPUS:
            agent(sample)
    parts = [event for event in events if event["event_type"] == TAPE]

    assert len(parts) >= 200
    assert leaks(str(parts)) == []
    assert tape_format.parse(parts[:4]).state == "partly"


def test_own_rules_hide_too_and_stand_in_the_header(taped: Any) -> None:
    @traced_agent("a")
    def agent() -> Any:
        return search("case 4711")

    _, tape = taped(agent, redaction=Redaction(rules=[Rule("case", r"case \d+")]))

    assert tape.data(tape.boundaries()[0].arguments)["query"] == "[redacted:case]"
    assert tape.header["redaction"]["rules"] == [["case", r"case \d+"]]


def test_only_failed_runs_are_kept_when_only_errors_are_wanted() -> None:
    @traced_agent("well")
    def well() -> Any:
        return search("x")

    @traced_agent("badly")
    def badly() -> Any:
        search("y")
        broken()

    with recording(record="errors") as events:
        well()
        with pytest.raises(ConnectionError):
            badly()
    tape = tape_format.parse(events)

    assert tape.header["name"] == "badly"
    assert [call.name for call in tape.boundaries()] == ["search", "broken"]
    assert tape.complete


def test_a_share_of_the_runs_is_recorded_the_same_in_every_process() -> None:
    def names(seed: int) -> set[str]:
        with recording(record="sampled", record_rate=0.3) as events:
            for number in range(60):
                traced_agent("a", trace_id=f"trace-{number}")(lambda: search(f"{seed}"))()
        return {event["trace_id"] for event in events if event["event_type"] == TAPE}

    assert names(1) == names(2)
    assert 5 < len(names(1)) < 40


def test_runs_side_by_side_have_their_own_tapes() -> None:
    @traced_agent("a")
    async def agent(number: int) -> Any:
        await asyncio.sleep(0)
        return search(str(number))

    async def both() -> None:
        await asyncio.gather(agent(1), agent(2))

    with recording() as events:
        asyncio.run(both())
    by_trace = {}
    for event in events:
        if event["event_type"] == TAPE:
            by_trace.setdefault(event["trace_id"], []).append(event)

    assert len(by_trace) == 2
    for parts in by_trace.values():
        assert len(tape_format.parse(parts).boundaries()) == 1


def test_a_growing_history_is_on_the_tape_once() -> None:
    @traced_llm("m")
    def ask(messages: list[Any]) -> str:
        return "answer " * 100

    @traced_agent("a")
    def agent() -> Any:
        messages: list[Any] = []
        for number in range(20):
            messages.append({"role": "user", "content": f"{number}" + "question " * 80})
            messages.append({"role": "assistant", "content": ask(messages)})
        return len(messages)

    with recording() as events:
        agent()
    size = sum(len(str(event)) for event in events if event["event_type"] == TAPE)

    assert size < 4 * 20 * 1600  # writing each call's history in full would be ten times as much


def test_a_block_can_be_the_run(taped: Any) -> None:
    def block() -> Any:
        with traced_agent("block"):
            return search("x")

    _, tape = taped(block)

    assert tape.complete
    assert tape.header["form"] == "block"
    assert [call.name for call in tape.boundaries()] == ["search"]


def test_tape_records_the_origin_of_the_run(taped: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("SHOP_REGION", "eu")
    monkeypatch.setenv("SHOP_KEY", "not asked for")
    monkeypatch.setenv("TRACEREEL_TAPE_ENVIRONMENT", "SHOP_REGION, NOT_SET")
    _, tape = taped(lambda: entry("tea", count=2))

    header = tape.header
    assert header["entry"] == f"{__name__}:entry"
    assert tape.data(tape.calls[header["n"]].arguments) == {"topic": "tea", "count": 2}
    assert header["environment"]["SHOP_REGION"] == "eu"
    assert header["environment"]["TZ"] == "UTC"
    assert not {"SHOP_KEY", "NOT_SET", "PATH"} & set(header["environment"])
    assert header["python"].startswith("3.")
    assert {"sdk", "libraries", "commit", "code", "started"} <= set(header)


def test_tool_block_is_not_served_and_marked_on_the_tape(taped: Any) -> None:
    @traced_agent("a")
    def agent() -> Any:
        with traced_tool("by hand"):
            return 1

    _, tape = taped(agent)

    assert tape.state == "partly"
    assert tape.reasons == ("the block of tool 'by hand' cannot be served",)


def test_a_block_of_a_model_whose_call_is_served_is_as_good_as_served(taped: Any) -> None:
    @traced_agent("a")
    def agent(*, wrapped: bool) -> Any:
        with traced_llm("m"):
            return boundary("client", "llm", {}, lambda: 1) if wrapped else 1

    assert taped(lambda: agent(wrapped=True))[1].state == "yes"
    reasons = taped(lambda: agent(wrapped=False))[1].reasons
    assert reasons == ("the block of llm 'm' cannot be served",)


def test_a_graph_of_its_own_is_a_run_that_ends(taped: Any) -> None:
    from langchain_core.tools import tool
    from langgraph.graph import START, StateGraph

    from tracereel.integrations.langgraph import wrap

    @tool
    def weather(place: str) -> str:
        """The weather of a place."""
        return f"rain in {place}"

    def look(state: dict[str, Any]) -> dict[str, Any]:
        return {"said": f"{search(state['said'])} {weather.invoke({'place': 'Lima'})}"}

    graph = StateGraph(dict)
    graph.add_node("look", look)
    graph.add_edge(START, "look")
    wrapped = wrap(graph.compile())
    _, tape = taped(lambda: wrapped.invoke({"said": "tea"}))

    assert tape.complete
    assert [call.name for call in tape.boundaries()] == ["search", "weather"]
    # Nothing but the variable of this test has the graph.
    assert tape.reasons == (
        "the run began with langgraph.invoke of an object that no module's variable has",
    )


def test_threads_have_own_lanes_and_calls_belong_to_their_agent(taped: Any) -> None:
    @traced_agent("a")
    def agent() -> Any:
        thread = threading.Thread(target=carry(search), args=("t",))
        thread.start()
        thread.join()
        return search("main")

    _, tape = taped(agent)

    assert sorted(call.lane for call in tape.boundaries()) == [0, 1]
    assert {call.parent for call in tape.boundaries()} == {1}


def test_boundary_without_a_tape_calls_the_function() -> None:
    async def later() -> int:
        return 2

    assert boundary("client", "llm", {}, lambda: 1) == 1
    assert asyncio.run(boundary("client", "llm", {}, later, form="async")) == 2


def test_a_line_cut_in_the_middle_and_a_lost_part_are_noticed(taped: Any) -> None:
    @traced_agent("a")
    def agent() -> Any:
        return [search(f"{n}") for n in range(5)]

    with recording() as events:
        agent()
    whole = tape_format.parse(events)
    lines = list(whole.lines())
    parts = [
        {"tape_id": whole.tape_id, "part": number, "records": list(whole.records[start:][:3])}
        for number, start in enumerate(range(0, len(whole.records), 3))
    ]

    assert tape_format.parse([*lines, lines[0][:30]]).complete
    cut = tape_format.parse(parts[:3])
    assert not cut.complete
    assert cut.state == "partly"
    gap = tape_format.parse([*parts[:2], *parts[3:]])
    assert "part 2 of the tape is missing" in gap.reasons


def test_recording_changes_no_result_exception_or_kind() -> None:
    import inspect

    @traced_tool("gen")
    def gen() -> Any:
        got = yield 1
        return got

    @traced_agent("a")
    def agent() -> Any:
        made = gen()
        assert next(made) == 1
        try:
            made.send("sent")
        except StopIteration as stop:
            return stop.value

    @traced_tool("coroutine of a plain function")
    def plain() -> Any:
        async def inner() -> int:
            return 5

        return inner()

    with recording():
        assert agent() == "sent"
        assert asyncio.run(plain()) == 5
        assert inspect.isgeneratorfunction(gen)
        with pytest.raises(ConnectionError):
            broken()


def test_invalid_record_and_effect_settings_are_refused() -> None:
    with pytest.raises(tracereel.ConfigurationError, match="off, errors, sampled, all"):
        tracereel.configure(record="sometimes")
    with pytest.raises(ValueError, match="pure, read, write, irreversible"):
        traced_tool("t", effect="none")


@pytest.mark.parametrize("record", ["off", "all"])
def test_an_error_thrown_into_an_async_generator_reaches_its_code(record: str) -> None:
    seen: list[BaseException] = []

    @traced_tool("stream", effect="read")
    async def stream() -> Any:
        try:
            yield 1
        except LookupError as error:
            seen.append(error)
            yield 2

    async def use(thrown: Exception) -> list[Any]:
        items = stream()
        return [await anext(items), await items.athrow(thrown), [each async for each in items]]

    thrown = LookupError("other")
    with recording(record=record):

        @traced_agent("a")
        async def agent() -> Any:
            return await use(thrown)

        assert asyncio.run(agent()) == [1, 2, []]

    assert seen == [thrown]


def test_an_async_generator_that_an_error_ends_is_recorded_with_that_error(taped: Any) -> None:
    @traced_tool("stream", effect="read")
    async def stream() -> Any:
        try:
            yield 1
        except LookupError as error:
            raise ValueError("no such item") from error

    @traced_agent("a")
    async def agent() -> Any:
        items = stream()
        await anext(items)
        await items.athrow(LookupError("other"))

    raised, tape = taped(lambda: asyncio.run(agent()))
    (call,) = tape.boundaries()

    assert isinstance(raised, ValueError)
    assert call.end is not None
    assert call.end.how == "raised"
    assert "no such item" in str(tape.data(call.end.value))


def test_a_tape_has_the_versions_of_the_libraries_in_use_and_of_no_others(child: Child) -> None:
    process = child("""
        import sys
        import google.protobuf, langchain_core
        from tracereel.tape import header

        assert "langchain" not in sys.modules and "google.genai" not in sys.modules
        print(*header.about()["libraries"])
    """)
    out, errors = process.communicate(timeout=60)

    assert errors == ""
    assert "langchain-core" in out.split()
    assert "google-genai" not in out.split()
