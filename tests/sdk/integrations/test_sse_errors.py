"""Error frames of SSE agents: code, category and stage."""

import json

import pytest

from tracereel.failures import add_failure_rule, remove_failure_rule
from tracereel.integrations.sse import SseAgentError, wrap
from tracereel.testing import EventRecorder

FAILED = "agent.execution.failed"


def frame(event, **data):
    return f"event: {event}\ndata: {json.dumps(data)}\n\n"


SEARCH = frame("tool_status", tool="search_normativa", args={"query": "permiso"})
TOKENS = [frame("token", text="Desde 2021 ")]


@pytest.fixture
def events():
    with EventRecorder() as recorder:
        yield recorder


def only(events, kind):
    (event,) = events.get_events(kind)
    return event


@pytest.mark.parametrize(
    ("before", "sent", "expected"),
    [
        ([], {"message": "no"}, ("AGENT_ERROR", "permanent", "orchestration")),
        ([SEARCH], {"code": "rate_limited"}, ("rate_limited", "transient", "tool_execution")),
        (TOKENS, {"code": "INVALID_ARGS"}, ("INVALID_ARGS", "validation", "llm_call")),
        (
            [SEARCH, *TOKENS],
            {"error": {"code": "overloaded"}},
            ("overloaded", "transient", "llm_call"),
        ),
        (
            [SEARCH],
            {"code": "X", "category": "validation", "stage": "retrieval"},
            ("X", "validation", "retrieval"),
        ),
        ([], {"code": "X", "category": "odd"}, ("X", "permanent", "orchestration")),
    ],
)
def test_an_error_frame_has_code_category_and_stage(events, before, sent, expected):
    list(wrap(iter([*before, frame("error", **sent)]), "ss-expert"))

    failed = only(events, FAILED)
    assert (failed["error_code"], failed["error_category"], failed["stage"]) == expected


def test_a_failure_rule_of_the_program_comes_first(events):
    rule = add_failure_rule(SseAgentError, category="permanent", stage="billing")
    try:
        list(wrap(iter([frame("error", code="rate_limited")]), "ss-expert"))
    finally:
        remove_failure_rule(rule)

    failed = only(events, FAILED)
    assert (failed["error_category"], failed["stage"]) == ("permanent", "billing")
