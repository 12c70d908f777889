"""A pipeline counts its agents wherever they run, and records its outcome."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest

from tracereel import current_execution, traced_agent, traced_llm, traced_pipeline

Deliver = Callable[[], list[dict[str, Any]]]


class CodedError(Exception):
    code = "LLM_TIMEOUT"


class OwnError(Exception):
    pass


def test_a_pipeline_counts_its_agents_in_tasks_and_threads(recorded: Deliver) -> None:
    @traced_agent("good")
    def good(x: int) -> int:
        return x

    @traced_agent("bad")
    async def bad() -> None:
        raise ValueError("no")

    @traced_pipeline("booking", agents=["good", "bad"])
    async def run(prompt: str, *, timezone: str, user_id: int) -> str:
        execution = current_execution()
        assert execution is not None
        execution.set(confidence=0.8, outcome="booked")
        await asyncio.to_thread(good, 1)
        await asyncio.gather(bad(), asyncio.create_task(bad()), return_exceptions=True)
        context = contextvars.copy_context()
        with ThreadPoolExecutor() as pool:
            pool.submit(context.run, good, 2).result()
        return "apt_1"

    asyncio.run(run("tomorrow", timezone="UTC", user_id=7))
    events = recorded()
    started, completed = events[0], events[-1]
    expected = {
        "pipeline_type": "booking",
        "agent_sequence": ["good", "bad"],
        "sequence_length": 2,
        "user_prompt": "tomorrow",
        "user_timezone": "UTC",
        "user_id": "7",
        "span_id": started["span_id"],
    }
    assert expected == {key: started[key] for key in expected}
    expected = {
        "event_type": "agent.pipeline.completed",
        "status": "partial_success",
        "final_outcome": "booked",
        "agents_executed": 4,
        "agents_succeeded": 2,
        "agents_failed": 2,
        "agents_retried": 0,
        "output_summary": "apt_1",
        "final_confidence": 0.8,
        "trace_event_count": 10,
        "span_name": "invoke_workflow booking",
    }
    assert expected == {key: completed[key] for key in expected}
    assert {event["trace_id"] for event in events} == {started["trace_id"]}


@pytest.mark.parametrize(
    ("error", "status"),
    [(None, "success"), (ValueError("x"), "failed"), (KeyboardInterrupt(), "cancelled")],
)
def test_pipeline_records_its_outcome(
    recorded: Deliver, error: BaseException | None, status: str
) -> None:
    @traced_pipeline("p")
    def run() -> None:
        if error is not None:
            raise error

    with pytest.raises(type(error)) if error is not None else nullcontext():
        run()
    started, completed = recorded()
    assert completed["status"] == status
    assert (started["agent_sequence"], started["user_prompt"]) == (None, None)
    assert (completed["final_confidence"], completed["final_outcome"]) == (None, None)


def test_nested_pipelines_count_for_each_other(recorded: Deliver) -> None:
    agent = traced_agent("a")(lambda: None)
    inner = traced_pipeline("inner")(lambda: agent())

    @traced_pipeline("outer")
    def outer() -> None:
        agent()
        inner()

    outer()
    counts = {
        event["pipeline_type"]: event["agents_executed"]
        for event in recorded()
        if event["event_type"] == "agent.pipeline.completed"
    }
    assert counts == {"inner": 1, "outer": 2}


def test_pipeline_records_the_outcome_of_each_agent(recorded: Deliver) -> None:
    @traced_agent("good")
    def good() -> None:
        execution = current_execution()
        execution.set(confidence=0.5)
        execution.add_usage(prompt_tokens=2, completion_tokens=1, cost_usd=0.25)
        execution.retry_count = 2

    @traced_agent("bad")
    def bad() -> None:
        raise CodedError

    @traced_pipeline("p")
    def run() -> None:
        good()
        with pytest.raises(CodedError):
            bad()
        with pytest.raises(KeyboardInterrupt), traced_agent("stopped"):
            raise KeyboardInterrupt

    run()
    events = recorded()
    completed = events[-1]
    results = [
        (each["agent_name"], each["status"], each["error_code"], each["retry_count"])
        for each in completed["agent_results"]
    ]
    assert results == [
        ("good", "success", None, 2),
        ("bad", "failed", "LLM_TIMEOUT", 0),
        ("stopped", "cancelled", None, 0),
    ]
    assert completed["agent_results"][0]["execution_id"] == events[1]["execution_id"]
    counts = ("executed", "succeeded", "failed", "cancelled", "retried")
    assert [completed[f"agents_{name}"] for name in counts] == [3, 1, 1, 1, 1]
    assert (completed["total_llm_tokens"], completed["total_llm_cost_usd"]) == (3, 0.25)
    assert completed["status"] == "partial_success"


def test_pipeline_status_can_be_set(recorded: Deliver) -> None:
    with traced_pipeline("p") as run:
        run.set(status="failed", outcome="nobody answered")
        run.set(status="nonsense")
    assert recorded()[1]["status"] == "failed"


def test_agents_seen_from_many_threads_add_up(recorded: Deliver) -> None:
    agent = traced_agent("a")(lambda: None)

    @traced_pipeline("p")
    def run() -> None:
        with ThreadPoolExecutor(16) as pool:
            for _ in range(400):
                pool.submit(contextvars.copy_context().run, agent)

    run()
    completed = recorded()[-1]
    assert (completed["agents_executed"], completed["agents_succeeded"]) == (400, 400)
    assert len(completed["agent_results"]) == 256


def test_model_calls_of_nested_pipelines_count_in_the_outer_ones(recorded: Deliver) -> None:
    def ask(tokens: int) -> None:
        with traced_llm("m") as call:
            call.set(llm_prompt_tokens=tokens, llm_completion_tokens=1, llm_cost_usd=0.25)

    with traced_pipeline("outer"):
        ask(100)
        with traced_agent("a"):
            ask(10)
            with traced_pipeline("middle"), traced_pipeline("inner"):
                ask(1000)

    totals = {
        event["pipeline_type"]: (event["total_llm_tokens"], event["total_llm_cost_usd"])
        for event in recorded()
        if event["event_type"] == "agent.pipeline.completed"
    }
    assert totals == {"inner": (1001, 0.25), "middle": (1001, 0.25), "outer": (1113, 0.75)}
