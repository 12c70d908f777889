"""Outcomes of retries and fallbacks that later events decide."""

from msgspec import Raw

from tests.collector.query.rows import event, rows
from tests.collector.query.test_analysis import agent, analysed, pipeline
from tracereel_collector.query.run.analysis import analyse
from tracereel_collector.query.run.outcomes import FAILED
from tracereel_collector.query.run.summary import summary_of
from tracereel_collector.query.run.tree import build


def contract_run(*events):
    """Return a run of a sender that knows only the fields of the contract."""
    made = rows(event("pipeline.started", 0, pipeline_type="booking"), *events)
    return analyse(build(made), {})


def failed(at, name="parser", **fields):
    return [
        event("execution.started", at - 1, agent_name=name),
        event("execution.failed", at, agent_name=name, **fields),
    ]


def triggered(at, *, successful, primary="parser"):
    ids = {"primary_agent": primary, "fallback_agent": "regex"}
    return event("fallback.triggered", at, fallback_successful=successful, **ids)


def outcomes(analysis):
    return [
        analysis.outcomes.get(id(row), {}).get("fallback_successful")
        for row in analysis.run.events
        if row.event_type == FAILED
    ]


def test_each_failure_has_the_outcome_of_its_own_fallback():
    analysis = contract_run(
        *failed(2),
        triggered(3, successful=True),
        *failed(12),
        triggered(13, successful=False),
        *failed(22),
    )

    assert outcomes(analysis) == [True, False, None]


def test_one_good_fallback_of_several_is_enough():
    analysis = contract_run(
        *failed(2), triggered(3, successful=False), triggered(4, successful=True)
    )

    assert outcomes(analysis) == [True]


def test_outcomes_of_the_sender_are_kept():
    analysis = contract_run(
        *failed(2, fallback_successful=False),
        triggered(3, successful=True),
        *failed(12, "other", fallback_attempted=False),
        triggered(13, successful=True, primary="other"),
    )

    assert analysis.outcomes == {}


def test_a_fallback_that_failed_too_leaves_the_primary_failed():
    analysis = analysed(
        *pipeline(0, 100, status="success"),
        *agent("parser", 1, 10, status="failed"),
        event(
            *("fallback.triggered", 11),
            span_id="parser",
            primary_agent="parser",
            fallback_agent="regex",
            fallback_successful=False,
        ),
    )
    [told] = summary_of(analysis)["pipelines"]

    assert (told["status"], told["agents_failed"], told["agents_replaced"]) == ("success", 1, 0)


def retries(analysis):
    return [
        analysis.outcomes.get(id(row), {}).get("retry_successful")
        for row in analysis.run.events
        if row.event_type == "agent.retry.attempted"
    ]


def attempted(at, number):
    return event("retry.attempted", at, agent_name="parser", retry_attempt=number)


def test_a_retry_has_the_outcome_of_the_attempt_that_followed():
    started = event("execution.started", 1, agent_name="parser")
    ended = event("execution.completed", 9, agent_name="parser")

    assert retries(contract_run(started, attempted(2, 1), attempted(4, 2), ended)) == [False, True]
    assert retries(contract_run(started, attempted(2, 1))) == [None]


def test_an_operation_that_had_ended_before_has_no_outcome_of_a_retry():
    analysis = contract_run(
        event("execution.started", 1, agent_name="parser"),
        event("execution.completed", 2, agent_name="parser"),
        attempted(35, 2),
        triggered(60, successful=True),
    )

    assert retries(analysis) == [None]


def test_the_agents_of_a_pipeline_without_a_plan_are_those_that_ran():
    def begun(at, name):
        return event("execution.started", at, agent_name=name), *failed(at + 2, name)[1:]

    analysis = contract_run(
        *begun(1, "parser"),
        *begun(5, "geo"),
        *begun(9, "parser"),
        event("pipeline.completed", 20, pipeline_type="booking"),
    )

    (found,) = analysis.outcomes.values()
    assert found == {"agent_sequence": ["parser", "geo"], "sequence_length": 2}


def test_a_declared_plan_and_an_open_pipeline_keep_their_agents():
    declared = rows(
        event("pipeline.started", 0, pipeline_type="booking", agent_sequence=Raw(b'["parser"]')),
        event("execution.started", 1, agent_name="parser"),
        event("pipeline.completed", 20, pipeline_type="booking"),
    )

    assert analyse(build(declared), {}).outcomes == {}
    assert contract_run(event("execution.started", 1, agent_name="parser")).outcomes == {}
