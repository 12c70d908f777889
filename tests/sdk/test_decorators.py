"""Decorated code behaves as undecorated code and produces events, spans, metrics and logs."""

import asyncio
import contextvars
import functools
import gc
import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from types import CoroutineType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import tracereel
from tests.sdk.redact.test_values import values
from tests.support.ingest_sink import IngestSink
from tracereel import (
    current_execution,
    traced_agent,
    traced_decision,
    traced_llm,
    traced_pipeline,
    traced_retrieval,
    traced_step,
    traced_tool,
)

Deliver = Callable[[], list[dict[str, Any]]]


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["event_type"].removeprefix("agent.") for event in events]


def one(events: list[dict[str, Any]], event_type: str) -> dict[str, Any]:
    (found,) = [event for event in events if event["event_type"] == event_type]
    return found


def test_a_call_leaves_started_and_completed(recorded: Deliver) -> None:
    @traced_agent(
        "parsing_agent",
        version="1.2.0",
        llm_provider="qwen",
        llm_model="qwen-2.5",
        temperature=0.3,
        max_tokens=500,
    )
    def parse(prompt: str, days: int = 1) -> dict[str, str]:
        execution = current_execution()
        assert execution is not None
        execution.set(
            confidence=0.9, reasoning="clear", decision_type="extraction", llm_tokens_used=42
        )
        return {"who": "Ana"}

    assert parse("tomorrow at ten", days=2) == {"who": "Ana"}
    events = recorded()
    assert types(events) == ["execution.started", "execution.completed"]
    started, completed = events
    expected = {
        "agent_name": "parsing_agent",
        "agent_version": "1.2.0",
        "input_type": "str",
        "input_summary": "prompt: 'tomorrow at ten', days: 2",
        "input_size_bytes": len('"tomorrow at ten"2'),
        "llm_provider": "qwen",
        "llm_model": "qwen-2.5",
        "temperature": 0.3,
        "max_tokens": 500,
        "service": "tests",
        "parent_span_id": None,
        "parent_trace_id": None,
        "emitter_seq": 1,
        "trace_seq": 1,
    }
    assert expected == {key: started[key] for key in expected}
    assert started["request_id"].startswith("req_")
    expected = {
        "output_type": "dict",
        "output_summary": "{'who': 'Ana'}",
        "confidence": 0.9,
        "reasoning": "clear",
        "decision_type": "extraction",
        "llm_tokens_used": 42,
        "llm_cost_usd": None,
        "was_retried": False,
        "emitter_seq": 2,
        "trace_seq": 2,
        "trace_event_count": 2,
        "span_name": "invoke_agent parsing_agent",
        **{key: started[key] for key in ("trace_id", "span_id", "execution_id", "request_id")},
    }
    assert expected == {key: completed[key] for key in expected}
    assert completed["span_start_unix_nano"] <= completed["span_end_unix_nano"]
    assert started["hlc"] < completed["hlc"]


def test_unknown_execution_fields_are_null(recorded: Deliver) -> None:
    traced_agent("a")(lambda: None)()
    started, completed = recorded()
    for key in ("agent_version", "llm_provider", "llm_model", "temperature", "max_tokens"):
        assert started[key] is None
    for key in ("confidence", "decision_type", "reasoning", "llm_tokens_used"):
        assert completed[key] is None
    assert (started["input_type"], started["input_summary"]) == ("NoneType", "")


class CodedError(Exception):
    code = "LLM_TIMEOUT"


@pytest.mark.parametrize(
    ("error", "code", "category"),
    [
        (TimeoutError("slow"), "EXECUTION_TIMEOUT", "transient"),
        (ConnectionResetError("gone"), "UNHANDLED", "transient"),
        (ValueError("bad"), "UNHANDLED", "validation"),
        (TypeError("bad"), "UNHANDLED", "validation"),
        (KeyError("x"), "UNHANDLED", "permanent"),
        (CodedError("coded"), "LLM_TIMEOUT", "permanent"),
        (SystemExit(3), "UNHANDLED", "permanent"),
    ],
)
def test_a_failure_is_described_and_raised_unchanged(
    recorded: Deliver, error: BaseException, code: str, category: str
) -> None:
    @traced_agent("a")
    def fail(prompt: str) -> None:
        execution = current_execution()
        assert execution is not None
        execution.set(stage="llm_call")
        raise error

    with pytest.raises(type(error)) as caught:
        fail("hello")
    assert caught.value is error
    failed = one(recorded(), "agent.execution.failed")
    assert (failed["error_type"], failed["error_message"]) == (type(error).__name__, str(error))
    assert (failed["error_code"], failed["error_category"]) == (code, category)
    assert (failed["stage"], failed["input_at_error"]) == ("llm_call", {"prompt": "hello"})
    assert "raise error" in failed["stack_trace"]
    assert failed["retry_count"] == 0
    assert failed["was_retried"] is failed["max_retries_reached"] is False


def test_an_exception_whose_text_raises_is_recorded_all_the_same(
    recorded: Deliver, spans: InMemorySpanExporter
) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    @traced_agent("a")
    def fail() -> None:
        raise MuteError

    with pytest.raises(MuteError):
        fail()
    assert one(recorded(), "agent.execution.failed")["error_type"] == "MuteError"


def test_cancellation_is_not_failure(recorded: Deliver, registry: CollectorRegistry) -> None:
    @traced_agent("sleeper")
    async def sleep() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(sleep())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    events = recorded()
    assert types(events) == ["execution.started", "execution.cancelled"]
    assert events[1]["cancel_reason"] == "CancelledError"
    labels = {"agent_name": "sleeper", "status": "cancelled"}
    assert registry.get_sample_value("agent_executions_total", labels) == 1


def test_keyboard_interrupt_is_cancellation(recorded: Deliver) -> None:
    @traced_agent("a")
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert types(recorded()) == ["execution.started", "execution.cancelled"]


def test_a_coroutine_closed_elsewhere_makes_no_noise(
    recorded: Deliver, caplog: pytest.LogCaptureFixture
) -> None:
    """Closing it from another context does not change that context or log an error."""

    @traced_agent("a")
    async def wait() -> None:
        await asyncio.sleep(0)

    coroutine = wait()
    contextvars.copy_context().run(coroutine.send, None)
    contextvars.copy_context().run(coroutine.close)
    assert not current_execution()
    assert types(recorded()) == ["execution.started", "execution.cancelled"]
    assert not caplog.records


def test_methods_leave_self_out(recorded: Deliver) -> None:
    class Agent:
        @traced_agent("method")
        def process(self, prompt: str) -> str:
            return prompt

        @traced_agent("class")
        @classmethod
        def build(cls, size: int) -> int:
            return size

        @staticmethod
        @traced_agent("static")
        def plain(size: int) -> int:
            return size

    assert (Agent().process("x"), Agent.build(1), Agent.plain(2)) == ("x", 1, 2)
    summaries = [event["input_summary"] for event in recorded() if "input_summary" in event]
    assert summaries == ["prompt: 'x'", "size: 1", "size: 2"]


def test_signature_name_and_kind_are_kept() -> None:
    async def agent(prompt: str, *, days: int = 1) -> str:
        """What it does."""
        return prompt

    decorated = traced_agent("a")(agent)
    assert inspect.signature(decorated) == inspect.signature(agent)
    assert (decorated.__name__, decorated.__doc__) == ("agent", "What it does.")
    assert inspect.iscoroutinefunction(decorated)


def test_partials_and_callable_objects_are_traced_by_kind(recorded: Deliver) -> None:
    class Caller:
        async def __call__(self, x: int) -> int:
            return x

    async def add(a: int, b: int) -> int:
        return a + b

    partial = functools.partial(add, 1)
    assert asyncio.run(traced_agent("object")(Caller())(3)) == 3
    assert asyncio.run(traced_agent("partial")(partial)(2)) == 3
    assert len(recorded()) == 4


def test_decorator_misuse_raises_type_error() -> None:
    with pytest.raises(TypeError, match="takes a name"):
        traced_agent(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a name"):
        traced_pipeline("")
    with pytest.raises(
        TypeError, match=r"no option colour; it takes version, .*trace_id, .*inputs"
    ):
        traced_agent("a", colour="red")  # type: ignore[call-arg]


class OwnError(Exception):
    pass


DECORATORS: list[Callable[[str], Any]] = [
    traced_agent,
    traced_pipeline,
    traced_llm,
    traced_tool,
    traced_step,
    traced_retrieval,
    traced_decision,
]


@pytest.mark.parametrize("decorate", DECORATORS)
def test_recursion_is_as_deep_as_it_is(recorded: Deliver, decorate: Callable[[str], Any]) -> None:
    @decorate("r")
    def factorial(number: int) -> int:
        return 1 if number == 0 else number * factorial(number - 1)

    @decorate("r")
    def bottomless(number: int) -> int:
        return bottomless(number + 1)

    assert factorial(20) == 2432902008176640000
    with pytest.raises(RecursionError):
        bottomless(0)
    assert not current_execution()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    arguments=st.lists(values, max_size=3),
    keywords=st.dictionaries(st.sampled_from(["a", "prompt", "user_id"]), values, max_size=2),
    result=values,
    error=st.sampled_from([None, OwnError, ValueError, StopIteration, RecursionError, SystemExit]),
    is_async=st.booleans(),
    decorate=st.sampled_from([make("x") for make in DECORATORS]),
)
def test_decorated_and_bare_behave_identically(
    recorded: Deliver,
    arguments: list[Any],
    keywords: dict[str, Any],
    result: Any,
    error: type[BaseException] | None,
    is_async: bool,
    decorate: Any,
) -> None:
    """Same arguments, same returned object, same exception, whatever the values."""
    seen: list[Any] = []
    raised = error("x") if error is not None else None

    def body(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen.append((tuple(map(id, args)), {key: id(value) for key, value in kwargs.items()}))
        tracereel.record_decision(
            "d",
            input_data=kwargs,
            output_data={"out": result},
            chosen=result,
            candidates=list(args),
        )
        if raised is not None:
            raise raised
        return result

    def sync(*args: Any, **kwargs: Any) -> Any:
        return body(args, kwargs)

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return body(args, kwargs)

    bare: Callable[..., Any] = coroutine if is_async else sync
    outcomes = [_outcome(call, arguments, keywords) for call in (bare, decorate(bare))]
    assert outcomes[0][0] is outcomes[1][0]
    if not (is_async and error is StopIteration):
        assert outcomes[0][1] is outcomes[1][1]
    assert type(outcomes[0][1]) is type(outcomes[1][1])
    assert seen[0] == seen[1]
    assert not current_execution()


def _outcome(
    call: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]
) -> tuple[Any, BaseException | None]:
    try:
        value = call(*arguments, **keywords)
        if type(value) is not CoroutineType:
            return value, None
        while True:
            value.send(None)
    except StopIteration as stop:
        return (stop.value, None) if inspect.iscoroutinefunction(call) else (None, stop)
    except BaseException as raised:
        return None, raised


def test_sixty_four_threads_number_without_gaps(recorded: Deliver) -> None:
    """Each thread's run has its own trace; emitter numbers are 1..n in file order."""
    agent = traced_agent("a")(lambda number: number)
    pipeline = traced_pipeline("p")(lambda number: [agent(number) for _ in range(10)])
    barrier = threading.Barrier(64)

    def work(number: int) -> None:
        barrier.wait()
        pipeline(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = recorded()
    assert [event["emitter_seq"] for event in events] == list(range(1, 64 * 22 + 1))
    assert len({event["hlc"] for event in events}) == len(events)
    for trace_id in {event["trace_id"] for event in events}:
        clock = [event["hlc"] for event in events if event["trace_id"] == trace_id]
        assert clock == sorted(clock)
    traces: dict[str, list[int]] = {}
    for event in events:
        traces.setdefault(event["trace_id"], []).append(event["trace_seq"])
    assert list(traces.values()) == [list(range(1, 23))] * 64
    done = [event for event in events if event["event_type"] == "agent.pipeline.completed"]
    assert {event["agents_executed"] for event in done} == {10}
    assert {event["trace_event_count"] for event in done} == {22}


def test_switched_off_nothing_is_left(tmp_path: Path) -> None:
    tracereel.configure(enabled=False)
    assert traced_agent("a")(lambda: 1)() == 1
    assert not current_execution()
    assert not (tmp_path / "spool").exists()
    assert tracereel.flush() == tracereel.FlushResult(0, 0, 0)


def test_content_can_be_kept_out(sink: IngestSink, registry: CollectorRegistry) -> None:
    tracereel.configure(endpoint=sink.url, registry=registry, capture_content=False)

    @traced_agent("a")
    def fail(secret: str) -> None:
        tracereel.record_decision("d", reasoning="hunter2", input_data={"k": "hunter2"})
        raise ValueError("boom")

    @traced_pipeline("p")
    def run(prompt: str) -> str:
        with pytest.raises(ValueError, match="boom"):
            fail(prompt)
        return prompt

    run("hunter2")
    tracereel.flush()
    assert len(sink.events) == 5
    assert not any("hunter2" in str(event) for event in sink.events)


def test_bad_settings_in_the_environment_never_reach_the_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRACEREEL_ENDPOINT", "nonsense")
    assert traced_agent("a")(lambda: 5)() == 5
    assert "TRACEREEL_ENDPOINT is 'nonsense'" in caplog.text


def test_no_cycle_keeps_a_failed_calls_frame_alive(recorded: Deliver) -> None:
    """The exception and the objects in its frames are freed without the garbage collector."""
    import weakref

    class Big:
        pass

    refs: list[weakref.ref[Big]] = []

    @traced_agent("a")
    def fail() -> None:
        big = Big()
        refs.append(weakref.ref(big))
        raise ValueError("x")

    gc.disable()
    try:
        with pytest.raises(ValueError, match="x") as caught:
            fail()
        del caught
        assert refs[0]() is None
    finally:
        gc.enable()
