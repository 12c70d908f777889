"""Sibling attempts of a retry loop without a trace around it: the last one decides the state."""

import pytest

from tests.collector.query.rows import event
from tests.collector.query.test_analysis import agent, analysed
from tracereel_collector.query.run.analysis import was_handled
from tracereel_collector.query.run.summary import summary_of


def announced(name, at, number, *, after=1.0, execution=None):
    """Return the event of tenacity's or stamina's hook, in the execution that just failed."""
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
def test_last_attempt_decides_the_state_of_the_run(last, state):
    analysis = tried(last=last)
    summary = summary_of(analysis)

    assert (analysis.state, summary["state"]) == (state, state)
    assert summary["retries"] == 2
    assert (summary["fatal_error"] is None) == (state == "success")
    assert analysis.first_error is not None
    assert was_handled(analysis.first_error) == (state == "success")


def test_all_attempts_are_one_chain():
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


def test_retries_inside_an_attempt_are_a_separate_chain():
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


def test_announced_attempt_is_not_listed_before_it_starts():
    analysis = analysed(
        *agent("one", 0, 10, parent="", status="failed", error_type="OSError"),
        announced("one", 10.5, 1),
    )
    (chain,) = analysis.chains

    assert [(link.number, link.status, link.waited_ms) for link in chain.links] == [
        (1, "failed", 1.0)
    ]
    assert analysis.state == "failed"


def test_started_attempt_decides_the_state_of_the_run():
    """The start event names the execution it repeats, so a crashed attempt is not hidden."""
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
def test_last_attempt_decides_the_state_of_calls_without_an_agent(kind):
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


def test_cyclic_repeats_do_not_break_the_analysis():
    analysis = analysed(
        *agent("one", 0, 10, parent="", repeats="x-two"),
        *agent("two", 12, 20, parent="", repeats="x-one"),
        *agent("self", 22, 30, parent="", repeats="x-self"),
    )
    assert summary_of(analysis)["total_steps"] == 3
