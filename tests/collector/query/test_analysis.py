"""Run analysis: critical path, chains, waste, errors, usage."""

import json

import pytest
from hypothesis import given

from tests.collector.query.rows import MILLI, event, rows, span
from tests.collector.query.test_tree import HELD, RUNS
from tracereel_collector.query.budgeted_tree import MIN_BYTES, brief_of
from tracereel_collector.query.diff import aligned, compared
from tracereel_collector.query.run.analysis import analyse, covered
from tracereel_collector.query.run.summary import summary_of
from tracereel_collector.query.run.timeline import timeline_of
from tracereel_collector.query.run.tree import build
from tracereel_collector.query.state_at import MomentOfRun, state_at
from tracereel_collector.query.trace import document_of


def analysed(*events, **options):
    made = rows(*events, **options)
    return analyse(build(made), made.prices)


def agent(name, start, end, *, parent="p", status="completed", emitter_id="", **fields):
    ids = {
        "emitter_id": emitter_id,
        "span_id": name,
        "parent_span_id": parent,
        "agent_name": name,
        "execution_id": f"x-{name}",
    }
    return [
        event("execution.started", start, **ids),
        event(f"execution.{status}", end, start=start, **ids, **fields),
    ]


def pipeline(start, end, *, emitter_id="", **fields):
    ids = {"span_id": "p", "pipeline_type": "booking", "emitter_id": emitter_id}
    return [
        event("pipeline.started", start, **ids),
        event("pipeline.completed", end, start=start, **ids, **fields),
    ]


def path(analysis):
    return [
        (each.step.name if each.step else None, (each.end - each.start) // MILLI)
        for each in analysis.path
    ]


def test_the_critical_path_follows_what_ended_last():
    analysis = analysed(
        *pipeline(0, 100), *agent("quick", 10, 30), *agent("slow", 10, 60), *agent("last", 70, 90)
    )

    assert path(analysis) == [
        ("booking", 10),
        ("slow", 50),
        ("booking", 10),
        ("last", 20),
        ("booking", 10),
    ]


def test_worker_that_outlives_its_caller_is_not_on_the_critical_path():
    analysis = analysed(*pipeline(0, 50), *agent("detached", 40, 90))

    assert path(analysis)[0] == ("booking", 50)


@HELD
@given(RUNS)
def test_the_critical_path_is_as_long_as_the_run_without_a_gap(made):
    analysis = analyse(build(made), made.prices)
    run = analysis.run

    reached = run.began
    for segment in analysis.path:
        assert segment.start == reached
        assert segment.end > segment.start
        reached = segment.end
    assert reached == run.ended or not analysis.path


def retried():
    """One agent retries internally and falls back; another is retried as a whole."""
    return analysed(
        *pipeline(0, 100),
        event("execution.started", 1, span_id="a", parent_span_id="p", agent_name="parser"),
        event(
            *("retry.attempted", 10),
            start=2,
            span_id="a1",
            parent_span_id="a",
            agent_name="parser",
            attempt=1,
            retry_attempt=1,
            delay_seconds=0.005,
            error_message="LLMTimeoutError: after 30s",
            reason="timeout",
        ),
        event(
            *("llm.called", 9),
            start=3,
            span_id="m1",
            parent_span_id="a1",
            llm_model="qwen",
            tokens=100,
            cost_usd=0.25,
        ),
        event(
            *("step.completed", 25),
            start=15,
            span_id="a2",
            parent_span_id="a",
            agent_name="parser",
            attempt=2,
            step_type="attempt",
            status="failed",
            error_type="LLMTimeoutError",
        ),
        event(
            *("fallback.triggered", 30),
            span_id="a",
            primary_agent="parser",
            fallback_agent="regex",
            fallback_successful=True,
            reason="max_retries_exceeded",
        ),
        event("execution.completed", 31, start=1, span_id="a", parent_span_id="p", tokens=100),
        *agent("again", 40, 50, status="failed", error_type="ValueError", error_message="no"),
        event(
            *("execution.completed", 60),
            start=52,
            span_id="second",
            parent_span_id="p",
            agent_name="again",
            repeats="x-again",
            tokens=7,
        ),
    )


def test_attempts_and_fallbacks_are_one_chain():
    (chain,) = retried().chains

    assert [(link.what, link.number, link.status) for link in chain.links] == [
        ("attempt", 1, "failed"),
        ("attempt", 2, "failed"),
        ("fallback", None, "success"),
    ]
    assert chain.links[0].waited_ms == 5
    assert chain.outcome == "success"


def test_failed_attempts_count_as_waste():
    waste = retried().waste

    assert [step.id for step in waste.steps] == ["a1", "a2", "again"]
    assert waste.waiting_ms == 5
    assert waste.time_ms == 8 + 10 + 10 + 5
    assert (waste.usage.tokens, waste.usage.cost_usd) == (100, 0.25)


def test_tokens_count_once_calls_first():
    usage = retried().usage

    assert (usage.tokens, usage.cost_usd) == (107, 0.25)


def test_a_call_that_wraps_another_counts_once_and_is_priced():
    analysis = analysed(
        *agent("a", 0, 10, parent=""),
        spans=[
            span("w", "a", 1, 9, call_kind="llm", tokens=10),
            span("i", "w", 2, 8, call_kind="llm", tokens=10),
        ],
        prices={"w": 0.5, "i": 0.5},
    )

    assert (analysis.usage.tokens, analysis.usage.cost_usd) == (10, 0.5)


def test_the_first_error_is_the_deepest_that_came_first_and_was_handled():
    summary = summary_of(retried())

    assert summary["first_error"]["step"] == "a1"
    assert summary["first_error"]["type"] == "LLMTimeoutError"
    assert summary["first_error"]["handled"] is True
    assert summary["fatal_error"] is None


def test_a_pipeline_counts_its_agents_in_every_process():
    analysis = analysed(
        *pipeline(0, 100, emitter_id="here"),
        *agent("parse", 1, 10, emitter_id="here"),
        *agent("locate", 11, 20, emitter_id="there", status="failed"),
        *agent("map", 12, 18, parent="locate", emitter_id="there", retry_count=2),
        *agent("stopped", 21, 30, emitter_id="elsewhere", status="cancelled"),
    )
    [told] = summary_of(analysis)["pipelines"]

    assert told == {
        "step": "p",
        "pipeline_type": "booking",
        "status": "partial_success",
        "agents_executed": 4,
        "agents_succeeded": 2,
        "agents_failed": 1,
        "agents_cancelled": 1,
        "agents_replaced": 0,
        "agents_retried": 1,
        "emitters": 3,
    }


def test_failures_beside_a_pipeline_are_counted_by_it():
    here = {"emitter_id": "here"}
    analysis = analysed(
        *pipeline(0, 100, **here, status="success"), *agent("a", 1, 10, **here, status="failed")
    )
    [told] = summary_of(analysis)["pipelines"]

    assert (told["status"], told["agents_failed"]) == ("success", 1)


def test_an_operation_that_was_tried_again_elsewhere_is_one():
    """Executions in the other process carry no link to the operation they are attempts of."""

    def attempt(name, start, end, kind, *, number=1, **fields):
        ids = {"span_id": f"t{name}", "parent_span_id": "boss", "agent_name": "boss"}
        return event(kind, end, start=start, attempt=number, **ids, **fields)

    def remote(number, start, end, **fields):
        made = agent("remote", start, end, parent=f"t{number}", emitter_id="there", **fields)
        for row in made:
            row.span_id, row.execution_id = f"remote-{number}", f"x-remote-{number}"
        return made

    analysis = analysed(
        *pipeline(0, 100, emitter_id="here"),
        *agent("boss", 1, 60, emitter_id="here", retry_count=2),
        *remote(1, 2, 8, status="failed"),
        attempt(1, 1, 9, "retry.attempted"),
        *remote(2, 12, 18),
        attempt(2, 11, 19, "step.completed", step_type="attempt", number=2),
        *remote(3, 22, 28, status="failed"),
        attempt(3, 21, 29, "retry.attempted", number=1),
        *remote(4, 32, 38),
        attempt(4, 31, 39, "step.completed", step_type="attempt", number=2),
        *remote(5, 42, 48),
        attempt(5, 41, 49, "step.completed", step_type="attempt", number=1),
    )
    [told] = summary_of(analysis)["pipelines"]

    assert told["status"] == "success"
    assert (told["agents_executed"], told["agents_failed"], told["agents_retried"]) == (4, 0, 3)


def test_an_execution_that_repeats_another_stands_for_both_also_in_pipelines_around():
    inner = {"span_id": "q", "parent_span_id": "p", "pipeline_type": "inner"}
    analysis = analysed(
        *pipeline(0, 100),
        event("pipeline.started", 1, **inner),
        event("pipeline.completed", 50, start=1, **inner),
        *agent("first", 2, 10, parent="q", status="failed"),
        *agent("second", 12, 20, parent="q", repeats="x-first"),
        *agent("other", 60, 70),
    )
    outer, nested = summary_of(analysis)["pipelines"]

    assert (nested["agents_executed"], nested["agents_failed"], nested["agents_retried"]) == (
        1,
        0,
        1,
    )
    assert (outer["agents_executed"], outer["agents_failed"], outer["agents_retried"]) == (2, 0, 1)


def test_the_error_that_ended_a_run_leads_to_its_cause():
    analysis = analysed(
        *pipeline(0, 100, status="failed", error_type="PipelineError"),
        *agent("outer", 1, 90, status="failed", error_type="AgentError"),
        event(
            *("tool.called", 80),
            start=70,
            span_id="t",
            parent_span_id="outer",
            call_name="book",
            status="failed",
            error_type="ConnectionError",
        ),
    )
    summary = summary_of(analysis)

    assert summary["fatal_error"]["type"] == "PipelineError"
    assert summary["fatal_error"]["cause"]["name"] == "book"
    assert summary["fatal_error"]["handled"] is False
    assert summary["first_error"]["name"] == "book"


@pytest.mark.parametrize(
    ("stretches", "expected"),
    [([], 0), ([(0, 5), (3, 8)], 8), ([(0, 10), (2, 3)], 10), ([(0, 1), (5, 6)], 2)],
)
def test_overlaps_count_once(stretches, expected):
    assert covered(stretches) == expected


def silent(steps):
    return [("", "")] * len(steps)


def verbose(steps):
    return [('"ñ\n' * 5_000, "\\" * 70)] * len(steps)


@HELD
@given(RUNS)
def test_any_run_can_be_analysed(made):
    analysis = analyse(build(made), made.prices)

    document = document_of(analysis)
    assert len(document["steps"]) == len(analysis.run.steps)
    for budget in (MIN_BYTES, 2_000):
        for said in (silent, verbose):
            short = brief_of(analysis, analysis.run.roots, budget=budget, said=said)
            assert len(short) <= budget
    entries = timeline_of(analysis, tenant="default")
    assert len(entries) == len(made.events) + sum(
        step.source == "otlp" for step in analysis.run.steps
    )
    assert len({str(entry.cursor) for entry in entries}) == len(entries)
    for offset in (-1.0, 0.0, 300.0, 10**6):
        state = state_at(analysis, MomentOfRun(offset_ms=offset))
        assert state["finished"] + state["under_way"] + state["to_come"] == len(analysis.run.steps)
    same = compared(analysis, analyse(build(made), made.prices))
    assert same["same"] is True
    assert same["first_difference"] is None


@HELD
@given(RUNS, RUNS)
def test_every_step_of_two_runs_is_in_one_pair(one, other):
    a, b = build(one), build(other)
    pairs = aligned(a.roots, b.roots)

    assert sorted(id(pair.a) for pair in pairs if pair.a) == sorted(map(id, a.steps))
    assert sorted(id(pair.b) for pair in pairs if pair.b) == sorted(map(id, b.steps))


def booking(*, number=1, output="ok", chosen="A", extra=(), tokens=10, took=10):
    return analysed(
        *pipeline(0, 50 + took, output=output),
        *agent("parser", 1, 5, input="x", output=output),
        event(
            *("decision.recorded", 4),
            span_id="parser",
            decision_type="route",
            chosen=chosen,
            reasoning=f"{chosen} is best",
        ),
        event(
            *("tool.called", 20 + took),
            start=20,
            span_id="t",
            parent_span_id="p",
            call_name="find",
            arguments={"n": number, "q": "x"},
        ),
        event(*("llm.called", 45), start=40, span_id="m", parent_span_id="p", tokens=tokens),
        *extra,
    )


def test_a_slower_run_is_the_same_run():
    document = compared(booking(), booking(took=25))

    assert document["same"] is True
    assert document["totals"]["duration_ms"]["delta"] == 15


def test_the_first_difference_is_the_decision_not_the_outcome_it_led_to():
    document = compared(booking(), booking(chosen="B", output="no"))

    first = document["first_difference"]
    assert (first["name"], first["what"]) == ("parser", "decision")
    assert first["fields"]["decision"]["b"] == {
        "type": "route",
        "chosen": "B",
        "reasoning": "B is best",
    }
    assert {step["name"] for step in document["steps"]} == {"parser", "booking"}


def test_changed_arguments_name_their_keys():
    document = compared(booking(), booking(number=2))

    (changed,) = document["steps"]
    assert changed["fields"]["input"]["keys"] == {"added": [], "removed": [], "changed": ["n"]}
    assert document["counts"] == {"steps": 4, "same": 3, "changed": 1, "added": 0, "removed": 0}


def test_added_and_removed_steps_stand_where_they_happened():
    more = [event("tool.called", 15, start=12, span_id="n", parent_span_id="p", call_name="check")]
    added = compared(booking(), booking(extra=more))
    removed = compared(booking(extra=more), booking(tokens=12))

    assert [(step["change"], step["name"]) for step in added["steps"]] == [("added", "check")]
    assert added["first_difference"]["change"] == "added"
    assert [(step["change"], step["what"]) for step in removed["steps"]] == [
        ("removed", "removed"),
        ("changed", "tokens"),
    ]


def test_of_several_calls_of_a_name_those_with_the_same_input_belong_together():
    def calls(*inputs):
        return analysed(
            *pipeline(0, 90),
            *(
                event(
                    *("tool.called", 10 * place + 5),
                    start=10 * place,
                    span_id=f"t{place}",
                    parent_span_id="p",
                    call_name="find",
                    arguments={"n": each},
                )
                for place, each in enumerate(inputs, start=1)
            ),
        )

    document = compared(calls(1, 2, 3), calls(9, 1, 2, 3))

    assert [(step["change"], step["b"]) for step in document["steps"]] == [("added", "t1")]


def test_content_takes_the_room_that_steps_leave():
    analysis = analysed(*pipeline(0, 900), *agent("one", 1, 2))

    short = brief_of(analysis, analysis.run.roots, budget=6_000, said=verbose)

    document = json.loads(short)
    assert 3_000 < len(short) <= 6_000
    assert all(step["output"] == "\\" * 70 for step in document["steps"])
    assert all(step["input"].startswith('"ñ') for step in document["steps"])
    assert all(step["input"].endswith("…") for step in document["steps"])


def test_a_brief_shows_what_failed_and_how_much_is_hidden():
    fine = [each for number in range(200) for each in agent(f"a{number}", number, number + 1)]
    analysis = analysed(*pipeline(0, 900), *fine, *agent("bad", 800, 801, status="failed"))

    short = brief_of(analysis, analysis.run.roots, budget=1_500, said=silent)

    assert len(short) <= 1_500
    assert b'"name":"bad"' in short
    assert b'"hidden":' in short


def test_another_model_is_a_change_of_the_call_not_another_call():
    def calls(*models):
        return analysed(
            *pipeline(0, 90),
            *(
                event(
                    *("llm.called", 10 * place + 5),
                    start=10 * place,
                    span_id=f"m{place}",
                    parent_span_id="p",
                    llm_model=each,
                    arguments={"n": place},
                )
                for place, each in enumerate(models, start=1)
            ),
        )

    document = compared(calls("a", "a", "a"), calls("a", "b", "a"))
    assert [(each["change"], each["what"], each["b"]) for each in document["steps"]] == [
        ("changed", "model", "m2")
    ]
    fewer = compared(calls("a", "a", "b"), calls("a", "b"))
    assert document["counts"]["added"] == document["counts"]["removed"] == 0
    assert fewer["counts"]["removed"] == 1
