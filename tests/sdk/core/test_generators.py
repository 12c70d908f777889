"""Generators are traced while their own code runs and behave like untraced ones."""

import asyncio
import contextvars
import gc
import inspect
import re
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry import trace

from tests.sdk.redact.test_values import values
from tests.support.ingest_sink import IngestSink
from tracereel import current_execution, traced_agent, traced_llm, traced_pipeline, traced_tool

Deliver = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def _no_noise(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """OpenTelemetry logs an error if a context is detached in another one."""
    yield
    assert "detach" not in caplog.text


def test_a_generator_is_one_execution_from_first_to_last_item(recorded: Deliver) -> None:
    @traced_agent("counter")
    def count(limit: int) -> Generator[int, None, str]:
        for number in range(limit):
            assert current_execution().name == "counter"
            yield number
        return "done"

    def consume() -> Generator[int, None, str]:
        return (yield from count(3))

    assert inspect.isgeneratorfunction(count)
    running = count(3)
    assert next(running) == 0
    assert not current_execution()
    assert not trace.get_current_span().get_span_context().is_valid
    assert list(running) == [1, 2]
    items = consume()
    assert [next(items), next(items), next(items)] == [0, 1, 2]
    with pytest.raises(StopIteration) as stop:
        next(items)
    assert stop.value.value == "done"
    completed = recorded()[1]
    assert completed["event_type"] == "agent.execution.completed"
    assert (completed["output_type"], completed["output_items"]) == ("generator", 3)
    assert completed["output_summary"] == "0, 1, 2"


def test_an_abandoned_generator_is_cancelled_with_what_it_gave(recorded: Deliver) -> None:
    @traced_agent("a")
    def words() -> Iterator[str]:
        yield "one "
        yield "two"

    running = words()
    next(running)
    del running
    gc.collect()
    cancelled = recorded()[1]
    assert cancelled["event_type"] == "agent.execution.cancelled"
    assert cancelled["cancel_reason"] == "GeneratorExit"
    assert cancelled["partial_output"] == {"items": 1, "summary": "one "}


def test_generator_that_never_started_records_nothing(recorded: Deliver) -> None:
    traced_agent("a")(lambda: (yield))()
    assert recorded() == []


def test_calls_inside_nest_and_code_outside_does_not(recorded: Deliver, sink: IngestSink) -> None:
    tool = traced_tool("lookup")(lambda: "x")

    @traced_agent("a")
    def agent() -> Iterator[str]:
        yield tool()
        yield tool()

    for _ in agent():
        tool()
    recorded()
    names = [event["agent_name"] for event in sink.of_type("agent.tool.called")]
    assert names == ["a", None, "a", None]


def test_a_generator_closed_in_another_context_is_cancelled_quietly(recorded: Deliver) -> None:
    @traced_agent("a")
    def agent() -> Iterator[int]:
        yield 1

    running = agent()
    contextvars.copy_context().run(next, running)
    contextvars.copy_context().run(running.close)  # type: ignore[attr-defined]
    assert recorded()[1]["event_type"] == "agent.execution.cancelled"


def test_llm_stream_records_time_to_first_token(recorded: Deliver, sink: IngestSink) -> None:
    @traced_llm("m", provider="p")
    async def stream(prompt: str) -> AsyncGenerator[str, None]:
        yield "Hel"
        yield "lo"
        current_execution().set(llm_prompt_tokens=3, llm_completion_tokens=2, finish_reason="stop")

    @traced_agent("a")
    async def agent() -> str:
        return "".join([part async for part in stream("hi")])

    assert asyncio.run(agent()) == "Hello"
    recorded()
    (call,) = sink.of_type("agent.llm.called")
    assert call["was_streamed"] is True
    assert call["time_to_first_token_ms"] <= call["duration_ms"]
    assert (call["output_messages"], call["output_items"]) == (["Hello"], 2)
    assert sink.of_type("agent.execution.completed")[0]["llm_tokens_used"] == 5


@pytest.mark.parametrize("leave", ["break", "cancel", "aclose"])
def test_an_async_generator_left_early_is_cancelled(recorded: Deliver, leave: str) -> None:
    cleaned: list[bool] = []
    closed = asyncio.Event()

    @traced_agent("a")
    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await asyncio.Event().wait()
            yield 2
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)
            closed.set()

    async def main() -> None:
        running = numbers()
        assert await anext(running) == 1
        assert not current_execution()
        if leave == "aclose":
            await asyncio.create_task(running.aclose())
        elif leave == "cancel":
            waiting = asyncio.ensure_future(anext(running))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        else:
            del running
            gc.collect()
            # The loop closes it in a separate task.
            await closed.wait()

    loop_errors: list[Any] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, info: loop_errors.append(info))
        await main()

    asyncio.run(watched())
    assert cleaned == [True]
    assert loop_errors == []
    assert recorded()[1]["event_type"] == "agent.execution.cancelled"


def test_an_async_generator_left_to_the_loop_is_closed_once(recorded: Deliver) -> None:
    @traced_agent("a")
    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            await asyncio.sleep(0)

    kept: list[Any] = []
    loop_errors: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, info: loop_errors.append(info))
        kept.append(numbers())
        await anext(kept[0])

    asyncio.run(main())
    assert loop_errors == []
    assert recorded()[1]["event_type"] == "agent.execution.cancelled"


class OwnError(Exception):
    pass


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), values),
        st.tuples(st.just("throw"), st.sampled_from([OwnError, KeyError, GeneratorExit])),
        st.tuples(st.just("close"), st.none()),
    ),
    max_size=5,
)
BODY = st.lists(st.sampled_from(["yield", "swallow", "raise", "return", "decide"]), max_size=5)


def body(plan: list[str], seen: list[Any], error: Exception, result: Any) -> Iterator[Any]:
    for number, action in enumerate(plan):
        if action == "raise":
            raise error
        if action == "return":
            return result
        if action == "swallow":
            try:
                seen.append((yield number))
            except Exception as thrown:
                seen.append(type(thrown))
            except GeneratorExit:
                return result
        else:
            seen.append((yield number))
    return result


async def async_body(
    plan: list[str], seen: list[Any], error: Exception
) -> AsyncGenerator[Any, Any]:
    for number, action in enumerate(plan):
        await asyncio.sleep(0)
        if action == "raise":
            raise error
        if action == "return":
            return
        if action == "swallow":
            try:
                seen.append((yield number))
            except Exception as thrown:
                seen.append(type(thrown))
            except GeneratorExit:
                return
        else:
            seen.append((yield number))


def drive(generator: Any, operations: list[tuple[str, Any]], error: Exception) -> list[Any]:
    outcomes: list[Any] = []
    for index, (operation, value) in enumerate([("send", None), *operations]):
        thrown = value() if operation == "throw" else None
        try:
            if operation == "close":
                # Since Python 3.13 it gives the return value of the generator.
                outcomes.append(("closed", id(generator.close())))
            elif thrown is not None:
                outcomes.append(("item", generator.throw(thrown)))
            else:
                outcomes.append(("item", generator.send(value if index else None)))
        except StopIteration as stop:
            outcomes.append(("stop", id(stop.value)))
        except BaseException as raised:
            outcomes.append((type(raised), str(raised), raised is error, raised is thrown))
            outcomes.append(type(raised.__context__))
    generator.close()
    return outcomes


async def drive_async(
    generator: Any, operations: list[tuple[str, Any]], error: Exception
) -> list[Any]:
    outcomes: list[Any] = []
    for index, (operation, value) in enumerate([("send", None), *operations]):
        thrown = value() if operation == "throw" else None
        try:
            if operation == "close":
                outcomes.append(("closed", await generator.aclose()))
            elif thrown is not None:
                outcomes.append(("item", await generator.athrow(thrown)))
            else:
                outcomes.append(("item", await generator.asend(value if index else None)))
        except BaseException as raised:
            outcomes.append((type(raised), str(raised), raised is error, raised is thrown))
            outcomes.append(type(raised.__context__))
    await generator.aclose()
    return outcomes


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(plan=BODY, operations=OPERATIONS, result=values, is_pipeline=st.booleans())
def test_decorated_and_bare_generators_behave_identically(
    recorded: Deliver,
    plan: list[str],
    operations: list[tuple[str, Any]],
    result: Any,
    is_pipeline: bool,
) -> None:
    decorate: Any = traced_pipeline("p") if is_pipeline else traced_agent("a")
    error = OwnError("x")
    outcomes = []
    for call in (body, decorate(body)):
        seen: list[Any] = []
        outcomes.append((drive(call(plan, seen, error, result), operations, error), seen))
    assert str(outcomes[0][0]) == str(outcomes[1][0])
    assert [id(each) for each in outcomes[0][1]] == [id(each) for each in outcomes[1][1]]
    assert not current_execution()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(plan=BODY, operations=OPERATIONS)
def test_decorated_and_bare_async_generators_behave_identically(
    recorded: Deliver, plan: list[str], operations: list[tuple[str, Any]]
) -> None:
    error = OwnError("x")
    outcomes = []
    for call in (async_body, traced_agent("a")(async_body)):
        seen: list[Any] = []
        driven = drive_async(call(plan, seen, error), operations, error)
        outcomes.append((asyncio.run(driven), seen))
    assert str(outcomes[0][0]) == str(outcomes[1][0])
    assert [id(each) for each in outcomes[0][1]] == [id(each) for each in outcomes[1][1]]
    assert not current_execution()


def test_a_long_stream_keeps_its_beginning_its_end_and_its_length(
    recorded: Deliver, sink: IngestSink
) -> None:
    parts = ["", "é" * 150, "b" * 100, *["c" * 1000] * 900, "the end"]

    @traced_llm("m")
    def stream() -> Generator[str, None, None]:
        yield from parts

    assert list(stream()) == parts
    recorded()
    (call,) = sink.of_type("agent.llm.called")
    whole = "".join(parts)
    (text,) = call["output_messages"]
    first, removed, last = re.split(r"…\[(\d+) characters removed\]…", text)
    assert whole.startswith(first)
    assert whole.endswith(last)
    assert min(len(first), len(last)) > 100_000
    assert len(text.encode()) <= 256 * 1024
    assert len(first) + int(removed) + len(last) == len(whole)
    assert call["output_summary"] == whole[:199] + "…"


def test_streams_are_recorded_as_they_were_yielded(recorded: Deliver, sink: IngestSink) -> None:
    @traced_agent("a")
    def stream(items: list[Any]) -> Generator[Any, None, None]:
        yield from items

    for items in (["a", "b" * 300, ""], ["a", {"n": 1}, "b"], []):
        list(stream(items))
    recorded()
    outputs = [each["output"] for each in sink.of_type("agent.execution.completed")]
    assert outputs == ["a" + "b" * 300, ["a", {"n": 1}, "b"], None]


def test_short_or_non_text_stream_is_not_marked_as_truncated(
    recorded: Deliver, sink: IngestSink
) -> None:
    @traced_llm("m")
    def stream(items: list[Any]) -> Generator[Any, None, None]:
        yield from items

    list(stream(["a" * 200]))
    list(stream([{"delta": "x" * 300}, "y" * 300]))
    recorded()
    calls = sink.of_type("agent.llm.called")
    assert [call.get("output_messages_truncated") for call in calls] == [None, None]


def test_an_empty_piece_is_not_the_first_token(recorded: Deliver, sink: IngestSink) -> None:
    @traced_llm("m")
    def stream(items: list[str]) -> Generator[str, None, None]:
        yield from items

    list(stream(["", ""]))
    list(stream(["", "x"]))
    recorded()
    first, second = sink.of_type("agent.llm.called")
    assert first["time_to_first_token_ms"] is None
    assert second["time_to_first_token_ms"] <= second["duration_ms"]


def test_failed_stream_records_its_partial_output(recorded: Deliver, sink: IngestSink) -> None:
    @traced_llm("m")
    def stream() -> Generator[str, None, None]:
        yield "Hel"
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        list(stream())
    recorded()
    (call,) = sink.of_type("agent.llm.called")
    assert (call["status"], call["output_messages"], call["output_items"]) == ("failed", ["Hel"], 1)
    assert call["time_to_first_token_ms"] <= call["duration_ms"]
