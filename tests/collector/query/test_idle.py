"""Attempts and fallbacks in the tree: only those in which something was retried or replaced."""

import pytest

from tests.collector.query.rows import event, rows
from tracereel_collector.query.run.tree import build


def tree(*events, attempts=False):
    run = build(rows(*events), attempts=attempts)
    return [(step.kind, step.id, step.parent and step.parent.id) for step in run.steps]


def agent(span, at, parent="", name="parser", how="completed"):
    given = {"span_id": span, "parent_span_id": parent, "agent_name": name}
    return (
        event("execution.started", at, **given),
        event(f"execution.{how}", at + 10, start=at, **given),
    )


def step(kind, span, at, parent="", status="success", **fields):
    given = {"span_id": span, "parent_span_id": parent, "step_type": kind, "status": status}
    return event("step.completed", at + 12, start=at, **given, **fields)


def call(span, at, parent):
    return event("llm.called", at + 2, start=at, span_id=span, parent_span_id=parent)


NOT_NEEDED = (
    *agent("a", 0),
    step("fallback", "f", 1, "a"),
    step("retry", "r", 1, "f"),
    step("attempt", "t", 2, "r", attempt=1),
    call("c", 3, "t"),
)


def test_attempts_are_left_out_where_nothing_was_retried_or_replaced():
    assert tree(*NOT_NEEDED) == [("agent", "a", None), ("llm", "c", "a")]


def test_all_attempts_are_there_on_request():
    assert tree(*NOT_NEEDED, attempts=True) == [
        ("agent", "a", None),
        ("fallback", "f", "a"),
        ("retry", "r", "f"),
        ("attempt", "t", "r"),
        ("llm", "c", "t"),
    ]


def test_events_of_an_omitted_step_belong_to_the_step_around_it():
    run = build(rows(*NOT_NEEDED))

    assert [row.event_type.split(".", 1)[1] for row in run.steps[0].events] == [
        *("execution.started", "execution.completed", "step.completed", "step.completed"),
        "step.completed",
    ]
    assert run.steps[0].closing.event_type == "agent.execution.completed"
    assert run.steps[1].parent_id == "a"


def test_an_omitted_root_leaves_its_events_to_what_is_below():
    run = build(rows(step("fallback", "f", 0), *agent("a", 1, "f")))

    (only,) = run.steps
    assert (only.id, only.parent, len(only.events)) == ("a", None, 3)
    assert only.closing.event_type == "agent.execution.completed"


@pytest.mark.parametrize("kind", ["attempt", "retry", "fallback"])
def test_a_step_that_is_all_there_is_stays(kind):
    assert tree(step(kind, "x", 0)) == [(kind, "x", None)]


def test_attempts_are_shown_where_one_was_retried():
    retry = event("retry.attempted", 5, start=1, span_id="1", parent_span_id="a", retry_attempt=1)

    assert tree(*agent("a", 0), retry, step("attempt", "2", 6, "a", attempt=2)) == [
        ("agent", "a", None),
        ("attempt", "1", "a"),
        ("attempt", "2", "a"),
    ]


def test_a_fallback_that_took_over_is_shown():
    taken = event("fallback.triggered", 30, span_id="f", primary_agent="parser")

    shown = tree(
        step("fallback", "f", 0),
        taken,
        *agent("a", 1, "f", how="failed"),
        *agent("b", 15, "f", name="regex"),
    )

    assert [kind for kind, *_ in shown] == ["fallback", "agent", "agent"]


def test_a_failed_attempt_is_shown():
    shown = tree(*agent("a", 0, how="failed"), step("attempt", "t", 1, "a", "failed", attempt=1))

    assert [kind for kind, *_ in shown] == ["agent", "attempt"]


def test_a_very_deep_row_of_omitted_steps_is_no_problem():
    many = 5_000
    chain = [
        step("fallback", "0", 0),
        *(step("retry", str(n), n, str(n - 1)) for n in range(1, many)),
    ]

    run = build(rows(*chain))

    (only,) = run.steps
    assert len(only.events) == many
