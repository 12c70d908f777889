"""Confidence, decision type, reasoning and outcome come from results and decisions."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

import tracereel
from tracereel import (
    current_execution,
    record_decision,
    traced_agent,
    traced_pipeline,
    traced_step,
)
from tracereel.resilience import fallback, fixed_delay, retry
from tracereel.testing import EventRecorder, assert_event


class Choice(Enum):
    SLOT = "slot"


@dataclass
class Parsed:
    confidence: float
    decision_type: object = "entity_extraction"
    reasoning: str = "a date and a doctor"


@dataclass(slots=True)
class Slotted:
    confidence: float


class Model(BaseModel):
    confidence: float


class Struct(msgspec.Struct):
    confidence: float


class Plain:
    def __init__(self, confidence: object) -> None:
        self.confidence = confidence


class OfRule:
    """Result of a rule, whose confidence is always the same."""

    confidence = 0.5


class Pair(NamedTuple):
    date: str
    confidence: float


def agent_event(result: object) -> dict[str, object]:
    @traced_agent("parsing_agent")
    def parse() -> object:
        return result

    with EventRecorder() as events:
        assert parse() is result
    return assert_event(events, "agent.execution.completed")


@pytest.mark.parametrize(
    "result",
    [
        {"confidence": 0.5},
        Plain(0.5),
        Parsed(0.5),
        Slotted(0.5),
        Model(confidence=0.5),
        Struct(confidence=0.5),
        Pair("tomorrow", 0.5),
        OfRule(),
        Plain(Decimal("0.5")),
        Plain(np.float32(0.5)),
    ],
    ids=lambda result: type(result).__name__,
)
def test_confidence_is_read_from_the_result(result: object) -> None:
    assert agent_event(result)["confidence"] == 0.5


def test_decision_type_and_reasoning_are_read_from_the_result() -> None:
    event = agent_event(Parsed(0.9))
    assert event["decision_type"] == "entity_extraction"
    assert event["reasoning"] == "a date and a doctor"
    assert agent_event(Parsed(0.9, Choice.SLOT))["decision_type"] == "Choice.SLOT"


@pytest.mark.parametrize("value", [1.01, -0.1, 95, float("nan"), "0.5", True, None, [0.5], {}])
def test_a_value_that_is_no_confidence_is_ignored(value: object) -> None:
    assert agent_event({"confidence": value})["confidence"] is None


class Hostile:
    @property
    def confidence(self) -> float:
        raise AssertionError("a property of the result was called")

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} was looked up by code of the result")


class Unusable(Decimal):
    def __float__(self) -> float:
        raise RuntimeError("no number")


def test_no_code_of_the_result_runs_and_nothing_is_raised() -> None:
    assert agent_event(Hostile())["confidence"] is None
    assert agent_event(Plain(Unusable("0.5")))["confidence"] is None


class HostileMeta(type):
    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("compared")

    def __getattribute__(cls, name: str) -> object:
        raise RuntimeError(f"{name} was read")


class OfHostile(metaclass=HostileMeta):
    """Its class can be neither hashed nor compared, and has no readable attributes."""


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_class_that_cannot_be_hashed_or_read_does_no_harm(wrapped: bool) -> None:
    hostile = type.__call__(OfHostile)

    @traced_agent("parsing_agent")
    def parse(context: object) -> object:
        return {"confidence": context, "reasoning": context} if wrapped else context

    @traced_pipeline("booking")
    def book(request: object) -> None:
        parse(request)

    with EventRecorder() as events:
        book(hostile)
    assert_event(events, "agent.execution.completed", confidence=None, reasoning=None)
    assert_event(events, "agent.pipeline.completed", status="success")


def test_fields_set_by_hand_win_over_the_result() -> None:
    @traced_agent("parsing_agent")
    def parse() -> Parsed:
        record_decision("other", confidence=0.1, reasoning="x")
        current_execution().set(confidence=0.3)
        return Parsed(0.9)

    with EventRecorder() as events:
        parse()
    assert_event(
        events,
        "agent.execution.completed",
        confidence=0.3,
        decision_type="entity_extraction",
        reasoning="a date and a doctor",
    )


def test_the_last_decision_fills_what_the_result_does_not_have() -> None:
    @traced_agent("inner_agent")
    def inner() -> None:
        record_decision("of the inner agent", confidence=0.1)

    @traced_agent("parsing_agent")
    def parse() -> dict[str, float]:
        record_decision("first", confidence=0.2, reasoning="first")
        with traced_step("check"):
            record_decision("entity_extraction", confidence=0.4, reasoning="last")
        inner()
        return {"confidence": 0.8}

    with EventRecorder() as events:
        parse()
    fields = {"decision_type": "entity_extraction", "reasoning": "last", "confidence": 0.8}
    assert_event(events, "agent.execution.completed", agent_name="parsing_agent", **fields)
    assert_event(
        events,
        "agent.execution.completed",
        agent_name="inner_agent",
        confidence=0.1,
        reasoning=None,
    )


def test_a_pipeline_takes_confidence_and_outcome_from_its_result() -> None:
    @traced_pipeline("appointment_creation")
    def book() -> dict[str, object]:
        return {"outcome": "appointment_created", "confidence": 0.89}

    @traced_pipeline("rescheduling")
    def move() -> None:
        record_decision("route", confidence=0.7)

    with EventRecorder() as events:
        book()
        move()
    completed = "agent.pipeline.completed"
    assert_event(events, completed, final_outcome="appointment_created", final_confidence=0.89)
    assert_event(events, completed, final_outcome=None, final_confidence=0.7)


def test_blocks_and_generators_are_read_too() -> None:
    @traced_agent("generating_agent")
    def generate() -> Iterator[str]:
        yield "a"
        return {"confidence": 0.6}

    with EventRecorder() as events:
        with traced_agent("block_agent") as execution:
            execution.set_output({"confidence": 0.5})
        list(generate())
        with traced_step("validation") as step:
            step.set_output(Parsed(0.4))
    assert_event(events, "agent.execution.completed", agent_name="block_agent", confidence=0.5)
    assert_event(events, "agent.execution.completed", agent_name="generating_agent", confidence=0.6)
    assert_event(events, "agent.step.completed", step_name="validation", confidence=0.4)


def test_agent_results_and_the_gauge_show_the_confidence() -> None:
    @traced_agent("parsing_agent")
    def parse() -> Parsed:
        return Parsed(0.75)

    @traced_pipeline("appointment_creation")
    def book() -> None:
        parse()

    registry = CollectorRegistry()
    with EventRecorder(registry=registry) as events:
        book()
    (result,) = assert_event(events, "agent.pipeline.completed")["agent_results"]
    assert result["confidence"] == 0.75
    assert registry.get_sample_value("agent_confidence", {"agent_name": "parsing_agent"}) == 0.75


def test_other_names_of_the_fields_are_configured(recorded) -> None:
    recorder = tracereel._core.recorder.active()
    tracereel.configure(
        endpoint=recorder.config.endpoint,
        result_fields={
            "confidence": ["certainty", "score"],
            "reasoning": "",
            "decision_type": "kind",
        },
    )

    @traced_agent("parsing_agent")
    def parse(result: object) -> object:
        return result

    parse({"score": 0.5, "reasoning": "not read", "kind": "extraction"})
    parse({"score": 0.5, "certainty": 7, "confidence": 1.0})
    first, second = (event for event in recorded() if event["event_type"].endswith("completed"))
    assert (first["confidence"], first["reasoning"]) == (0.5, None)
    assert first["decision_type"] == "extraction"
    assert second["confidence"] == 0.5


def test_reasoning_is_content() -> None:
    @traced_agent("parsing_agent")
    def parse() -> Parsed:
        return Parsed(0.9)

    with EventRecorder(capture_content=False) as events:
        parse()
    assert_event(events, "agent.execution.completed", confidence=0.9, reasoning=None)


@pytest.mark.parametrize("recording", [True, False])
def test_retries_and_fallbacks_judge_by_the_confidence_of_the_result(
    monkeypatch: pytest.MonkeyPatch, recording: bool
) -> None:
    monkeypatch.setenv("TRACEREEL_ENABLED", str(recording))
    found = iter([Plain(0.2), Plain(0.3), Plain(0.4)])
    sure = Plain(0.9)

    @fallback(to=lambda: sure, min_confidence=0.8)
    @retry(3, min_confidence=0.8, strategy=fixed_delay(0))
    def parse() -> Plain:
        return next(found)

    assert parse() is sure
    assert list(found) == []


def test_a_retried_agent_is_judged_by_its_last_decision() -> None:
    levels = iter([0.2, 0.9])

    @retry(3, min_confidence=0.8, strategy=fixed_delay(0))
    @traced_agent("parsing_agent")
    def parse() -> str:
        record_decision("entity_extraction", confidence=next(levels))
        return "done"

    with EventRecorder() as events:
        parse()
    assert_event(events, "agent.retry.attempted", retry_reason="low_confidence")
    assert_event(events, "agent.execution.completed", retry_count=1, confidence=0.9)
