"""Events suffice to draw the tree: each of our spans is described by exactly one."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tracereel
from tests.sdk.resilience.scripted import Scripted
from tracereel.resilience import fallback, fixed_delay, retry
from tracereel.testing import EventRecorder

Row = tuple[str, str, str | None, str, int, int]

again = retry(3, strategy=fixed_delay(0))


def of_span(span: ReadableSpan) -> Row:
    assert span.context is not None
    parent = f"{span.parent.span_id:016x}" if span.parent is not None else None
    ids = f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}", parent
    return *ids, span.name, span.start_time or 0, span.end_time or 0


def of_event(event: dict[str, Any]) -> Row:
    return (
        *(event["otel_trace_id"], event["span_id"], event["parent_span_id"]),
        *(event["span_name"], event["span_start_unix_nano"], event["span_end_unix_nano"]),
    )


def failing() -> None:
    raise OSError("x")


def plain() -> None:
    with tracereel.traced_agent("a"):
        for decorator in (tracereel.traced_llm, tracereel.traced_tool, tracereel.traced_step):
            decorator("x")(lambda: 1)()
        tracereel.traced_retrieval("r")(lambda: ["n1"])()
        tracereel.record_decision("d", reasoning="r")


def not_retried() -> None:
    tracereel.traced_agent("a")(again(lambda: 1))()


def retried_inside() -> None:
    script = Scripted(OSError(1), OSError(2), 3)
    step = tracereel.traced_step("s")(lambda: script())
    tracereel.traced_agent("a")(again(lambda: step()))()


def retried_around() -> None:
    script = Scripted(OSError(1), 2)
    again(tracereel.traced_agent("a")(lambda: script()))()


def retried_around_in_a_pipeline() -> None:
    script = Scripted(OSError(1), 2)
    call = again(tracereel.traced_agent("a")(lambda: script()))
    tracereel.traced_pipeline("p")(lambda: call())()


def exhausted() -> None:
    with pytest.raises(OSError, match="x"):
        tracereel.traced_agent("a")(again(failing))()
    with pytest.raises(OSError, match="x"):
        again(tracereel.traced_agent("a")(failing))()


def never_sure() -> None:
    @tracereel.traced_agent("a")
    @retry(2, min_confidence=0.5, strategy=fixed_delay(0))
    def call() -> None:
        tracereel.current_execution().set(confidence=0.1)

    call()


def named() -> None:
    retry(2, agent="loner", strategy=fixed_delay(0))(Scripted(OSError(), 1))()


def backed_up() -> None:
    inner = fallback(to=tracereel.traced_agent("backup")(lambda: 1))
    inner(again(tracereel.traced_agent("a")(failing)))()
    tracereel.traced_agent("b")(fallback(to=lambda: 1)(again(failing)))()
    tracereel.traced_pipeline("p")(inner(tracereel.traced_agent("c")(failing)))()
    with pytest.raises(OSError, match="x"):
        fallback(to=failing)(tracereel.traced_agent("d")(failing))()


def stopped() -> None:
    def leave() -> None:
        raise SystemExit(0)

    with pytest.raises(SystemExit):
        again(tracereel.traced_agent("a")(again(leave)))()


def generators() -> None:
    @tracereel.traced_llm("m")
    def stream() -> Iterator[int]:
        yield from (1, 2)

    @tracereel.traced_agent("a")
    async def items() -> AsyncIterator[int]:
        for item in stream():
            yield item

    async def main() -> None:
        async for _ in items():
            pass

    asyncio.run(main())
    next(stream())


def side_by_side() -> None:
    @again
    @tracereel.traced_agent("a")
    async def call(script: Scripted) -> int:
        await asyncio.sleep(0)
        result: int = script()
        return result

    @tracereel.traced_pipeline("p")
    async def run() -> None:
        await asyncio.gather(*(call(Scripted(OSError(), 1)) for _ in range(5)))

    asyncio.run(run())


SCENES = [
    *(plain, not_retried, retried_inside, retried_around, retried_around_in_a_pipeline),
    *(exhausted, never_sure, named, backed_up, stopped, generators, side_by_side),
]


def watched(scene: Callable[[], None]) -> tuple[list[Row], list[dict[str, Any]]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with EventRecorder(tracer_provider=provider) as events:
        scene()
    return [of_span(span) for span in exporter.get_finished_spans()], events.events


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_ids_parents_names_and_times_are_those_of_the_spans(scene: Callable[[], None]) -> None:
    spans, events = watched(scene)
    described = [of_event(event) for event in events if event.get("span_name")]
    assert spans
    assert Counter(described) == Counter(spans)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_every_event_belongs_to_a_span_that_is_described(scene: Callable[[], None]) -> None:
    spans, events = watched(scene)
    assert {event["span_id"] for event in events} <= {row[1] for row in spans}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_without_a_provider_the_events_draw_the_same_tree(scene: Callable[[], None]) -> None:
    with EventRecorder() as events:
        scene()
    rows = [of_event(event) for event in events if event.get("span_name")]
    ids = [row[1] for row in rows]
    assert len(set(ids)) == len(ids)
    assert {row[2] for row in rows} <= {None, *ids}
    assert sorted(row[3] for row in rows) == sorted(row[3] for row in watched(scene)[0])


def test_a_repeated_tool_call_has_a_span_and_by_design_no_event() -> None:
    def scene() -> None:
        tool = tracereel.traced_tool("t", tool_call_id="call_1")(lambda: 1)
        with tracereel.traced_agent("a"):
            tool()
            tool()

    spans, events = watched(scene)
    described = {of_event(event) for event in events if event.get("span_name")}
    assert [row[3] for row in spans if row not in described] == ["execute_tool t"]
