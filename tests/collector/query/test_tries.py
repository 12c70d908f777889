"""Tries that stand side by side, of a loop with nothing traced around: the last one is the run."""

import pytest

from tests.collector.query.rows import event
from tests.collector.query.test_analysis import agent, analysed
from tracereel_collector.query.run.errors import was_handled
from tracereel_collector.query.run.summary import summary_of


def announced(name, at, number, *, after=1.0, execution=None):
    """The event of tenacity's or stamina's hook, in the execution that has just failed."""
    return event(
        *("retry.attempted", at),
        span_id=name,
        execution_id=execution or f"x-{name}",
        agent_name="parser",
        retry_attempt=number,
        delay_seconds=after / 1000,
        reason="error",
        error_message="OSError: x",
    )


def tried(*, last="completed"):
    failing = {"status": "failed", "error_type": "OSError", "error_message": "x"}
    return analysed(
        *agent("one", 0, 10, parent="", **failing),
        announced("one", 10.5, 1),
        *agent("two", 12, 20, parent="", repeats="x-one", attempt=2, **failing),
        announced("two", 20.5, 2),
        *agent("three", 22, 30, parent="", status=last, repeats="x-two", attempt=3),
    )


@pytest.mark.parametrize(("last", "state"), [("completed", "success"), ("failed", "failed")])
def test_the_last_try_says_how_the_run_went(last, state):
    analysis = tried(last=last)
    summary = summary_of(analysis)

    assert (analysis.state, summary["state"]) == (state, state)
    assert summary["retries"] == 2
    assert (summary["fatal_error"] is None) == (state == "success")
    assert analysis.first_error is not None
    assert was_handled(analysis.first_error) == (state == "success")


def test_all_tries_are_one_chain():
    analysis = tried()
    (chain,) = analysis.chains

    assert [(link.number, link.step.id, link.status, link.waited_ms) for link in chain.links] == [
        (1, "one", "failed", 1.0),
        (2, "two", "failed", 1.0),
        (3, "three", "success", None),
    ]
    assert chain.outcome == "success"
    assert chain.began == analysis.run.began
    assert [step.id for step in analysis.waste.steps] == ["one", "two"]
    assert analysis.waste.waiting_ms == 2


def test_what_was_tried_again_inside_a_try_is_a_chain_of_its_own():
    analysis = analysed(
        event("execution.started", 0, span_id="one", execution_id="x-one", agent_name="parser"),
        announced("one", 2, 1),
        event(
            *("execution.failed", 10),
            start=0,
            span_id="one",
            execution_id="x-one",
            agent_name="parser",
            error_type="OSError",
        ),
        announced("one", 10.5, 1),
        *agent("two", 12, 20, parent="", repeats="x-one", attempt=2),
    )

    assert sorted(
        (chain.operation.id, [link.number for link in chain.links], chain.outcome)
        for chain in analysis.chains
    ) == [("one", [1, 2], "failed"), ("two", [1, 2], "success")]


def test_a_try_that_has_not_come_yet_is_not_told():
    analysis = analysed(
        *agent("one", 0, 10, parent="", status="failed", error_type="OSError"),
        announced("one", 10.5, 1),
    )
    (chain,) = analysis.chains

    assert [(link.number, link.status, link.waited_ms) for link in chain.links] == [
        (1, "failed", 1.0)
    ]
    assert analysis.state == "failed"


def test_a_try_that_has_begun_is_the_run():
    """Its beginning says what it repeats, so that one that crashes is not hidden by the failure."""
    analysis = analysed(
        *agent("one", 0, 10, parent="", status="failed", error_type="OSError"),
        announced("one", 10.5, 1),
        event(
            *("execution.started", 12),
            span_id="two",
            execution_id="x-two",
            agent_name="parser",
            repeats="x-one",
        ),
    )
    assert analysis.run.main is not None
    assert analysis.run.main.id == "two"


@pytest.mark.parametrize("kind", ["llm.called", "tool.called", "step.completed"])
def test_calls_without_an_agent_are_told_by_their_last_try_too(kind):
    first = {"span_id": "one", "execution_id": "x-one", "status": "failed", "error_type": "OSError"}
    inside = {"span_id": "in", "parent_span_id": "one", "execution_id": "x-one"}
    analysis = analysed(
        event(kind, 10, start=0, **first),
        event("llm.called", 5, start=1, **inside),
        announced("one", 10.5, 1),
        event(kind, 20, start=12, span_id="two", execution_id="x-two", repeats="x-one"),
    )

    assert analysis.state == "success"
    assert [step.id for step in analysis.waste.steps] == ["one"]
    (chain,) = analysis.chains
    assert [link.step.id for link in chain.links] == ["one", "two"]


def test_executions_that_claim_to_repeat_each_other_can_be_shown():
    analysis = analysed(
        *agent("one", 0, 10, parent="", repeats="x-two"),
        *agent("two", 12, 20, parent="", repeats="x-one"),
        *agent("self", 22, 30, parent="", repeats="x-self"),
    )
    assert summary_of(analysis)["total_steps"] == 3
