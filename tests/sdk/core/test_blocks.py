"""Every decorator also works as a context manager."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.ingest_sink import IngestSink
from tracereel import current_execution, traced_agent, traced_pipeline, traced_tool
from tracereel._core import envelope
from tracereel._runtime import guard

Deliver = Callable[[], list[dict[str, Any]]]


def test_a_block_is_an_execution(recorded: Deliver) -> None:
    with traced_agent("a", version="1", inputs={"prompt": "hi"}) as execution:
        assert current_execution() is execution
        execution.set(confidence=0.5)
        execution.set_output({"answer": 42})
    assert not current_execution()
    started, completed = recorded()
    assert started["input_summary"] == "prompt: 'hi'"
    assert (completed["output_type"], completed["output_summary"]) == ("dict", "{'answer': 42}")
    assert completed["confidence"] == 0.5


def test_exception_in_a_block_propagates(recorded: Deliver) -> None:
    error = ValueError("x")
    with pytest.raises(ValueError, match="x") as caught, traced_agent("a"):
        raise error
    assert caught.value is error
    assert recorded()[1]["event_type"] == "agent.execution.failed"


def test_async_blocks_nest_and_are_cancelled(recorded: Deliver, sink: IngestSink) -> None:
    async def main() -> None:
        async with traced_pipeline("p"), traced_agent("a"):
            await asyncio.Event().wait()

    async def outer() -> None:
        task = asyncio.create_task(main())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(outer())
    recorded()
    (cancelled,) = sink.of_type("agent.execution.cancelled")
    (pipeline,) = sink.of_type("agent.pipeline.completed")
    assert (pipeline["status"], pipeline["agents_cancelled"]) == ("cancelled", 1)
    assert cancelled["trace_id"] == pipeline["trace_id"]


def test_one_object_may_be_entered_by_many_tasks(recorded: Deliver, sink: IngestSink) -> None:
    block = traced_tool("t")

    async def enter(number: int) -> None:
        with block as execution:
            execution.set(tool_call_id=str(number))
            for _ in range(number % 3):
                await asyncio.sleep(0)
            assert current_execution() is execution

    async def main() -> None:
        await asyncio.gather(*(enter(number) for number in range(20)))

    asyncio.run(main())
    recorded()
    ids = {event["tool_call_id"] for event in sink.of_type("agent.tool.called")}
    assert ids == {str(number) for number in range(20)}


def test_retry_and_fallback_fields_are_set_through_the_execution(
    recorded: Deliver, sink: IngestSink
) -> None:
    with traced_agent("a") as execution:
        execution.retry_count = 2
        execution.fallback_used = True
        execution.attempt = 3
        execution.emit({"event_type": "custom.note", "text": "x"})
    started, note, completed = recorded()
    assert (completed["was_retried"], completed["retry_count"]) == (True, 2)
    assert (completed["fallback_used"], completed["attempt"]) == (True, 3)
    ids = ("trace_id", "span_id", "execution_id", "service")
    assert [note[key] for key in ids] == [started[key] for key in ids]
    assert (note["event_type"], note["text"], note["event_index"]) == ("custom.note", "x", 1)


def test_wrapped_agents_carry_their_name() -> None:
    class Agent:
        @traced_agent("bound")
        def run(self) -> None: ...

        @traced_agent("static")
        @staticmethod
        def plain() -> None: ...

    assert Agent.run.__tracereel_agent__ == "bound"  # type: ignore[attr-defined]
    assert Agent.plain.__tracereel_agent__ == "static"  # type: ignore[attr-defined]


def test_a_failure_of_ours_in_a_block_never_reaches_it(
    recorded: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACEREEL_RAISE_INTERNAL_ERRORS")
    monkeypatch.setattr(envelope, "record_all", lambda *_, **__: 1 / 0)
    with traced_agent("a") as execution:
        execution.set(confidence=1.0)
        execution.emit({"event_type": "custom.x"})
    assert traced_agent("b")(lambda: 7)() == 7
    assert list(traced_agent("c")(lambda: (yield 1))()) == [1]
    assert not current_execution()
    assert guard.errors["begin"] >= 3
