"""Runs are found by what is known of them, page by page, whoever told of them."""

import json
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.contract import EXAMPLES
from tracereel_collector.model import Kind
from tracereel_collector.query.filters import Filters
from tracereel_collector.query.search import Question, Search
from tracereel_collector.query.window import parse_window

START = datetime(2026, 1, 23, 10, tzinfo=UTC)
NOW = int(datetime(2026, 1, 23, 18, tzinfo=UTC).timestamp()) * 10**9


@pytest.fixture
def told(store, queued):
    """Stores events as lines of one body."""

    def insert(*events, tenant="default"):
        data = b"\n".join(json.dumps(each).encode() for each in events)
        store.insert(Kind.EVENTS, [queued(data, tenant=tenant)], token=uuid.uuid4().hex)

    return insert


@pytest.fixture
def search(store):
    found = Search(store, lambda: NOW)

    def ask(*, tenant="default", start=None, end=None, **given):
        named = {name: given.pop(name) for name in list(given) if name in Filters.__slots__}
        question = Question(
            filters=Filters(**named), window=parse_window(start, end, now=NOW), **given
        )
        return found.answer(tenant, question)

    return ask


def ids(answer):
    return [each["trace_id"] for each in answer["traces"]]


def at(seconds):
    return (START + timedelta(seconds=seconds)).isoformat()


def run(trace_id, *, begin=0, took=2, agent="parsing_agent", status="success", **more):
    """The events of a pipeline with one agent."""
    common = {"trace_id": trace_id, "request_id": "r", "event_version": "1.0.0"}
    pipeline = {**common, "pipeline_type": more.pop("pipeline", "booking")}
    ended = {"agent_name": agent, "output_type": "t", "output_size_bytes": 1}
    ended |= {"output_summary": more.pop("output", "done"), "execution_time_seconds": 1.0}
    failed = status == "failed"
    ended |= {"error_type": "Timeout", "error_category": "transient"} if failed else {}
    return [
        {**pipeline, "event_id": f"{trace_id}-1", "event_type": "agent.pipeline.started"}
        | {"timestamp": at(begin), "user_prompt": more.pop("prompt", "hello"), **more},
        {**common, "event_id": f"{trace_id}-2", "event_type": "agent.execution.started"}
        | {"timestamp": at(begin), "agent_name": agent, "input_type": "t"}
        | {"input_summary": "in", "input_size_bytes": 2},
        {**common, **ended, "event_id": f"{trace_id}-3", "execution_time_ms": took * 1000}
        | {"event_type": f"agent.execution.{'failed' if failed else 'completed'}"}
        | {"timestamp": at(begin + took), "confidence": more.get("confidence", 0.9)}
        | {"llm_cost_usd": more.get("cost", 0.001), "llm_tokens_used": 100},
        {**pipeline, "event_id": f"{trace_id}-4", "event_type": "agent.pipeline.completed"}
        | {"timestamp": at(begin + took), "status": status},
    ]


def test_the_contracts_examples_are_found_as_runs(told, search):
    told(*EXAMPLES)

    answer = search()

    assert set(ids(answer)) == {each["trace_id"] for each in EXAMPLES}
    by_id = {each["trace_id"]: each for each in answer["traces"]}
    booking = by_id["trc_main_abc123"]
    assert booking["status"] == "success"
    assert booking["name"] == booking["pipeline_type"] == "appointment_creation"
    assert booking["prompt"] == "cita mañana 10am con Dr. Pérez"
    assert booking["user_id"] == "user_12345"
    failed = by_id["trc_main_ghi789"]
    assert (failed["status"], failed["errors"]) == ("failed", 1)
    assert failed["error_types"] == ["LLMTimeoutError"]


def test_text_is_found(told, search):
    told(*run("a", prompt="Cita mañana con Dr. Pérez"), *run("b", prompt="nada más"))
    assert ids(search(text="PÉREZ cita")) == ["a"]
