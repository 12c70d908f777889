"""A run adopts and keeps the ids given by its caller."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

import tracereel
from tests.support.ingest_sink import IngestSink
from tracereel import traced_agent, traced_pipeline, traced_tool
from tracereel.testing import EventRecorder, assert_event

Deliver = Callable[[], list[dict[str, Any]]]


@dataclass
class SharedContext:
    trace_id: str = "trc_main_abc123"
    request_id: str = "req_xyz789"
    session_id: str = "ses_1"
    user_id: str = "user_12345"


class Slotted:
    __slots__ = ("request_id", "session_id", "trace_id", "user_id")

    def __init__(self) -> None:
        self.trace_id, self.request_id = "trc_main_abc123", "req_xyz789"
        self.session_id, self.user_id = "ses_1", "user_12345"


class Named(NamedTuple):
    first: int
    trace_id: str = "trc_main_abc123"
    request_id: str = "req_xyz789"
    session_id: str = "ses_1"
    user_id: str = "user_12345"


IDS = {
    "trace_id": "trc_main_abc123",
    "request_id": "req_xyz789",
    "session_id": "ses_1",
    "user_id": "user_12345",
}


def by_name(trace_id: str, *, request_id: str, session_id: str, user_id: str) -> None: ...


def by_context(context: Any) -> None: ...


def by_trace(trace_id: Any, user_id: Any = None) -> None: ...


def by_any(first: int, state: Any) -> None: ...


@pytest.mark.parametrize(
    "run",
    [
        lambda: traced_agent("a")(by_name)(**IDS),
        lambda: traced_agent("a")(by_context)(SharedContext()),
        lambda: traced_agent("a")(by_context)(IDS),
        lambda: traced_agent("a")(by_context)(Slotted()),
        lambda: traced_agent("a")(by_any)(1, Named(2)),
        lambda: traced_agent("a")(by_any)(1, SharedContext()),
        lambda: traced_agent("a", **IDS)(lambda: None)(),
        lambda: traced_pipeline("p")(by_context)(SharedContext()),
    ],
)
def test_ids_are_adopted(recorded: Deliver, run: Callable[[], None]) -> None:
    run()
    events = recorded()
    assert len(events) == 2
    for event in events:
        assert {key: event[key] for key in IDS} == IDS
    assert events[1]["trace_event_count"] == 2


def test_the_span_and_everything_inside_have_them(
    sink: IngestSink, registry: CollectorRegistry
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracereel.configure(endpoint=sink.url, tracer_provider=provider, registry=registry)
    tool = traced_tool("t")(lambda trace_id: trace_id)
    agent = traced_agent("a")(lambda: tool("another_run"))

    @traced_pipeline("p")
    def run(context: SharedContext) -> None:
        agent()

    run(SharedContext())
    tracereel.flush()
    assert len(sink.events) == 5
    for event in sink.events:
        assert {key: event[key] for key in IDS} == IDS
    for span in exporter.get_finished_spans():
        attributes = span.attributes or {}
        assert attributes["trace_id"] == "trc_main_abc123"
        assert attributes["tracereel.request_id"] == "req_xyz789"
        assert attributes["session.id"] == attributes["gen_ai.conversation.id"] == "ses_1"
        assert attributes["user.id"] == "user_12345"


def test_a_sub_agent_with_a_trace_of_its_own_is_linked(recorded: Deliver, sink: IngestSink) -> None:
    sub = traced_agent("sub")(by_trace)

    @traced_agent("main")
    def main(trace_id: str) -> None:
        sub("trc_sub")
        sub("trc_main")

    main("trc_main")
    events = recorded()
    started = sink.of_type("agent.execution.started")
    assert [(event["trace_id"], event["parent_trace_id"]) for event in started] == [
        ("trc_main", None),
        ("trc_sub", "trc_main"),
        ("trc_main", None),
    ]
    assert len({event["request_id"] for event in events}) == 1
    counts = [event["trace_event_count"] for event in events if "trace_event_count" in event]
    assert counts == [2, 4]


def test_a_parent_trace_may_be_named(recorded: Deliver) -> None:
    traced_agent("a", parent_trace_id="trc_up")(lambda: None)()
    assert recorded()[0]["parent_trace_id"] == "trc_up"


@pytest.mark.parametrize("bad", ["", "with space", "x" * 129, ["list"], 1.5, object()])
def test_invalid_ids_are_ignored(recorded: Deliver, bad: Any) -> None:
    traced_agent("a")(by_trace)(bad)
    started, completed = recorded()
    assert started["trace_id"] == started["otel_trace_id"] == completed["trace_id"]


def test_numbers_and_uuids_are_ids(recorded: Deliver) -> None:
    uuid = UUID(int=5)
    traced_agent("a")(by_trace)(uuid, 7)
    started = recorded()[0]
    assert (started["trace_id"], started["user_id"]) == (str(uuid), "7")


def test_no_property_of_an_argument_is_run(recorded: Deliver) -> None:
    class Lazy:
        @property
        def trace_id(self) -> str:
            raise AssertionError("run")

        def __getattr__(self, name: str) -> str:
            raise AssertionError("run")

    traced_agent("a")(by_context)(Lazy())
    assert len(recorded()) == 2


def test_requests_side_by_side_keep_their_own(recorded: Deliver) -> None:
    @traced_agent("a")
    async def agent(request_id: str) -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(agent(f"req_{number}") for number in range(50)))

    asyncio.run(main())
    by_execution: dict[str, set[str]] = {}
    for event in recorded():
        by_execution.setdefault(event["execution_id"], set()).add(event["request_id"])
    assert sorted(map(tuple, by_execution.values())) == sorted((f"req_{n}",) for n in range(50))


def test_task_that_outlives_its_run_updates_the_event_count(
    recorded: Deliver, registry: CollectorRegistry
) -> None:
    tool = traced_tool("look_up")(lambda: None)

    async def main() -> None:
        ended = asyncio.Event()

        async def later() -> None:
            await ended.wait()
            tool()

        @traced_agent("a")
        async def agent() -> asyncio.Task[None]:
            tool()
            return asyncio.create_task(later())

        task = await agent()
        ended.set()
        await task

    asyncio.run(main())
    counts = [event.get("trace_event_count") for event in recorded()]
    assert counts == [None, None, 3, 4]
    runs = [
        registry.get_sample_value("tracereel_sdk_runs_total", {"stage": stage})
        for stage in ("opened", "closed")
    ]
    assert runs[0] == runs[1]


class OfClass:
    trace_id = "trc_main_abc123"
    request_id = "req_xyz789"
    session_id, user_id = "ses_1", "user_12345"


class Computed:
    @property
    def trace_id(self) -> str:
        return "trc_main_abc123"

    @cached_property
    def request_id(self) -> str:
        return "req_xyz789"

    session_id, user_id = property(lambda _: "ses_1"), property(lambda _: "user_12345")


class ComputedContext(Computed):
    pass


@pytest.mark.parametrize("value", [OfClass(), Computed()], ids=["class attributes", "properties"])
def test_ids_are_class_attributes_or_properties_of_a_context(value: object) -> None:
    with EventRecorder() as events:
        traced_agent("a")(by_context)(value)
    assert_event(events, "agent.execution.started", **IDS)


def test_properties_are_called_on_context_objects_only() -> None:
    class Request:
        @property
        def trace_id(self) -> str:
            raise AssertionError("the property of an object that may be anything was called")

    @traced_agent("a")
    def agent(value: object) -> None: ...

    with EventRecorder() as events:
        agent(ComputedContext())
        agent(Request())
    assert_event(events, "agent.execution.started", **IDS)
    assert events.events[2]["trace_id"] != IDS["trace_id"]


def test_a_value_of_the_instance_wins_over_that_of_its_class() -> None:
    @dataclass
    class Optional:
        trace_id: str | None = "trc_default"
        session_id: str | None = "ses_default"

    with EventRecorder() as events:
        traced_agent("a")(by_context)(Optional(trace_id=None))
    event = assert_event(events, "agent.execution.started", session_id="ses_default")
    assert event["trace_id"] != "trc_default"


def test_a_property_that_raises_is_ignored() -> None:
    class Context:
        session_id = "ses_1"

        @property
        def trace_id(self) -> str:
            raise LookupError("no request")

    with EventRecorder() as events:
        traced_agent("a")(by_context)(Context())
    assert_event(events, "agent.execution.started", session_id="ses_1", trace_id=...)
