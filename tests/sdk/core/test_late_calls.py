"""Events after the end of a run: the last one written carries the event count."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import tracereel
from tests.support.ingest_sink import IngestSink
from tracereel import (
    current_execution,
    record_decision,
    retry,
    traced_agent,
    traced_step,
    traced_tool,
)

Deliver = Callable[[], list[dict[str, Any]]]
Event = dict[str, Any]

look_up = traced_tool("look_up", effect="read")(lambda: "found")


def final_counts(events: list[Event]) -> list[int | None]:
    """Return the event count of each event, ordered by sequence number."""
    ordered = sorted(events, key=lambda event: event["trace_seq"])
    assert [event["trace_seq"] for event in ordered] == list(range(1, len(events) + 1))
    return [event.get("trace_event_count") for event in ordered]


def run_counts(registry: CollectorRegistry) -> list[float | None]:
    return [
        registry.get_sample_value("tracereel_sdk_runs_total", {"stage": stage})
        for stage in ("opened", "closed")
    ]


def decides() -> None:
    record_decision("route", chosen="late")


def notes_a_round() -> None:
    current_execution().emit({"event_type": "custom.noticed", "agent_name": "a"})


@traced_agent("late one")
def agent_that_calls() -> None:
    look_up()
    decides()


@traced_step("late step")
def step_that_decides() -> None:
    decides()


@retry(2, agent="late one")
def tried_again() -> None:
    decides()


def after_the_run(late: Callable[[], object], *, decorate: Any = None) -> None:
    """Run a function in a task of a run after the run has ended."""

    async def main() -> None:
        ended = asyncio.Event()

        async def later() -> None:
            await ended.wait()
            late()

        @(decorate or traced_agent("a"))
        async def agent() -> "asyncio.Task[None]":
            look_up()
            return asyncio.create_task(later())

        task = await agent()
        ended.set()
        await task

    asyncio.run(main())


@pytest.mark.parametrize(
    "late", [look_up, decides, notes_a_round, agent_that_calls, step_that_decides, tried_again]
)
@pytest.mark.parametrize("record", ["off", "all"])
def test_a_run_is_closed_by_the_last_event_of_a_task_that_outlives_it(
    recorded: Deliver, sink: IngestSink, registry: CollectorRegistry, late: Any, record: Any
) -> None:
    if record != "off":
        tracereel.configure(endpoint=sink.url, service="tests", registry=registry, record=record)
    after_the_run(late)

    events = recorded()

    assert final_counts(events)[-1] == len(events)
    opened, closed = run_counts(registry)
    assert opened == closed


def test_a_call_that_is_under_way_after_the_run_keeps_it_open(recorded: Deliver) -> None:
    after_the_run(agent_that_calls)

    # Started, tool and end of the run; then started, tool, decision and end of the late agent.
    assert final_counts(recorded()) == [None, None, 3, None, None, None, 7]


@pytest.mark.parametrize("late", [look_up, decides])
def test_a_task_that_outlives_what_was_retried_closes_its_run_too(
    recorded: Deliver, registry: CollectorRegistry, late: Any
) -> None:
    after_the_run(late, decorate=retry(2, agent="a"))

    events = recorded()

    assert final_counts(events)[-1] == len(events)
    opened, closed = run_counts(registry)
    assert opened == closed
