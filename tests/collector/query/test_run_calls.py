"""Calls and failures of a run on its page: those that the list settles from all of its spans."""

import random

import pytest

from tests.collector.query.rows import rows, span
from tracereel_collector.query.run.analysis import analyse
from tracereel_collector.query.run.calls import _call, repeated_calls
from tracereel_collector.query.run.tree import build
from tracereel_collector.store.calls import calls_of
from tracereel_collector.store.dialects.names import DIRECT_KINDS


def errors(*spans):
    made = rows(spans=spans, trace_ids=("0" * 32,))
    return analyse(build(made), made.prices).identity.errors


@pytest.mark.parametrize("kind", DIRECT_KINDS)
def test_a_request_that_failed_inside_of_a_failed_call_is_no_error_beside_it(kind):
    run = span("run", "", 0, 10)
    call = span("call", "run", 1, 9, call_kind=kind, status_code="Error")
    between = span("try", "call", 2, 8)
    request = span("http", "try", 3, 7, status_code="Error")

    assert errors(run, call, between, request) == 1
    assert errors(run, span("call", "run", 1, 9, call_kind=kind), between, request) == 1
    assert errors(run, request) == 1


@pytest.mark.parametrize("kind", DIRECT_KINDS)
def test_two_spans_of_a_call_of_any_kind_have_its_tokens_once(kind):
    call = {"call_kind": kind, "prompt_tokens": 10, "tokens": 10, "model": "m1"}
    spans = [
        span("run", "", 0, 10),
        span("one", "run", 1, 9, scope="one", **call),
        span("other", "run", 2, 8, scope="other", **call),
    ]
    run = rows(spans=spans, trace_ids=("0" * 32,))

    assert analyse(build(run), run.prices).usage.tokens == 10


@pytest.mark.parametrize("kind", ["tool", "agent"])
def test_a_tool_or_agent_that_failed_inside_of_a_failed_call_is_an_error_of_its_own(kind):
    call = span("call", "", 1, 9, call_kind="llm", status_code="Error")

    assert errors(call, span("inner", "call", 2, 8, call_kind=kind, status_code="Error")) == 2


@pytest.mark.parametrize("seed", range(20))
def test_what_is_left_out_of_the_search_changes_nothing(seed):
    chance = random.Random(seed)
    spans = []
    for number in range(60):
        parent = chance.choice(spans[-8:]).span_id if spans else ""
        spans.append(
            span(
                *(f"s{number}", parent, number, 200 - number),
                call_kind=chance.choice(["", "", "llm", "embedding", "rerank", "tool", "agent"]),
                status_code=chance.choice(["", "Error"]),
                tokens=chance.choice([None, 10]),
            )
        )
    steps = build(rows(spans=spans, trace_ids=("0" * 32,))).steps
    keys = {id(step): step.id for step in steps}

    repeats = calls_of(_call(step, keys) for step in steps).repeats
    assert {keys[step] for step in repeated_calls(steps)} == repeats.keys()
    assert repeats
