"""Decisions are recorded with their inputs, candidates, scores and choice."""

import gc
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

from tracereel import (
    record_decision,
    traced_agent,
    traced_decision,
    traced_pipeline,
    traced_step,
    traced_tool,
)
from tracereel.testing import EventRecorder, assert_event

DECISION = "agent.decision.recorded"


@dataclass
class Option:
    name: str
    score: float


def decided(**fields: object) -> dict[str, object]:
    with EventRecorder() as events, traced_agent("router"):
        record_decision("route", **fields)
    return assert_event(events, DECISION)


@pytest.mark.parametrize(
    ("fields", "chosen"),
    [
        ({"candidates": ["a", "b"], "chosen": "b", "output_data": {"route": "a"}}, "b"),
        ({"candidates": ["a", "b"], "output_data": "a"}, "a"),
        ({"candidates": ["a", "b"], "output_data": {"route": "b", "why": "x"}}, "b"),
        ({"candidates": ["a", "b"], "output_data": {"route": "c"}}, {"route": "c"}),
        ({"output_data": {"route": "c"}}, {"route": "c"}),
        ({"candidates": ["a", "b"], "scores": [0.2, 0.7]}, "b"),
        ({"candidates": ["a", "b"], "scores": [0.7, 0.7]}, "a"),
        ({"candidates": ["a", "b"], "scores": [0.2, 0.7], "threshold": 0.9}, None),
        ({"scores": {"a": 0.2, "b": 0.7}, "threshold": 0.7}, "b"),
        ({"candidates": ["only"]}, "only"),
        ({"candidates": ["a", "b"]}, None),
        ({}, None),
    ],
)
def test_the_choice_is_recorded_or_derived(fields: dict[str, object], chosen: object) -> None:
    assert decided(**fields)["chosen"] == chosen


@pytest.mark.parametrize(
    ("fields", "candidates", "scores"),
    [
        ({"candidates": ("a", "b"), "scores": [0.2, 3]}, ["a", "b"], [0.2, 3.0]),
        ({"candidates": ["a", "b"], "scores": {"b": 0.7}}, ["a", "b"], [None, 0.7]),
        ({"candidates": ["a", "b"], "scores": [0.7]}, ["a", "b"], [0.7, None]),
        ({"candidates": ["a"], "scores": [0.7, 0.8]}, ["a"], [0.7]),
        ({"scores": {"a": 0.2, 7: "much"}}, ["a", 7], [0.2, None]),
        (
            {"candidates": [Option("a", 0.5), {"name": "b", "probability": 0.25}]},
            [{"name": "a", "score": 0.5}, {"name": "b", "probability": 0.25}],
            [0.5, 0.25],
        ),
        ({"candidates": "a"}, ["a"], None),
        ({"candidates": {"a": 0.2, "b": 0.7}}, ["a", "b"], [0.2, 0.7]),
        ({"candidates": {"name": "a", "price": 3}}, [{"name": "a", "price": 3}], None),
        ({"candidates": {"a": 1, "b": 2}.keys(), "scores": {"b": 0.7}}, ["a", "b"], [None, 0.7]),
        ({"candidates": ["a", "b"], "scores": {1: 0.2, 2: 0.7}.values()}, ["a", "b"], [0.2, 0.7]),
        ({"candidates": range(2), "scores": np.array([0.25, 0.5], "f4")}, [0, 1], [0.25, 0.5]),
        ({"candidates": np.array(["a", "b"])}, ["a", "b"], None),
        ({"scores": [0.5]}, None, None),
        ({}, None, None),
    ],
)
def test_scores_stand_in_the_order_of_the_candidates(
    fields: dict[str, object], candidates: object, scores: object
) -> None:
    event = decided(**fields)
    assert (event["candidates"], event["candidate_scores"]) == (candidates, scores)


def test_the_threshold_is_a_number() -> None:
    assert decided(threshold=0.8)["threshold"] == 0.8
    assert decided(threshold="high")["threshold"] is None


def test_the_result_of_a_decision_is_its_choice() -> None:
    @traced_decision("rule_check", candidates=["accept", "refuse"])
    def check(amount: int) -> str:
        return "accept" if amount < 10 else "refuse"

    @traced_decision("slot")
    def choose() -> dict[str, object]:
        return {"chosen": "10:00", "scores": {"10:00": 0.9, "11:30": 0.4}, "threshold": 0.5}

    with EventRecorder() as events, traced_agent("a"):
        check(20)
        choose()
    assert_event(events, DECISION, chosen="refuse", input_data={"amount": 20})
    assert_event(
        events,
        DECISION,
        chosen="10:00",
        candidates=["10:00", "11:30"],
        candidate_scores=[0.9, 0.4],
        threshold=0.5,
    )


def test_inputs_are_those_of_the_innermost_call_with_arguments() -> None:
    @traced_tool("calendar")
    def slots(day: str) -> None:
        record_decision("in the tool")

    @traced_agent("booking_agent")
    def book(prompt: str, days: int = 3) -> None:
        with traced_step("check"), traced_decision("in the step"):
            pass
        slots("monday")
        record_decision("given", input_data={"date": "tomorrow"})

    @traced_agent("idle_agent")
    def idle() -> None:
        record_decision("without arguments")

    @traced_pipeline("booking")
    def pipeline(prompt: str) -> None:
        book(prompt)
        idle()
        record_decision("in the pipeline")

    with EventRecorder() as events:
        pipeline("at ten")
    inputs = {each["decision_type"]: each["input_data"] for each in events.get_events(DECISION)}
    assert inputs == {
        "in the step": {"prompt": "at ten", "days": 3},
        "in the tool": {"day": "monday"},
        "given": {"date": "tomorrow"},
        "without arguments": None,
        "in the pipeline": {"prompt": "at ten"},
    }


def test_inherited_inputs_are_cut_and_content_may_be_off() -> None:
    @traced_agent("a")
    def agent(prompt: str) -> None:
        record_decision("d", candidates=["x", "y"], scores=[0.1, 0.2], threshold=0.1)

    with EventRecorder() as events:
        agent("x" * 100_000)
    assert len(assert_event(events, DECISION)["input_data"]["prompt"]) <= 4_096
    with EventRecorder(capture_content=False) as events:
        agent("secret")
    event = assert_event(events, DECISION, candidate_scores=[0.1, 0.2], threshold=0.1)
    assert event["input_data"] is event["candidates"] is event["chosen"] is None


def test_arguments_are_not_kept_alive_by_what_outlives_the_call() -> None:
    class Large: ...

    kept = []

    @traced_agent("a")
    def agent(value: Large) -> None:
        from tracereel import current_execution

        kept.append(current_execution())

    with EventRecorder():
        value = Large()
        gone = weakref.ref(value)
        agent(value)
        del value
        gc.collect()
        assert kept
        assert gone() is None
