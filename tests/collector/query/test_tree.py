"""Events and spans become a tree of steps, even if parts are missing."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.collector.query.rows import BEGAN, MILLI, event, rows, span
from tracereel_collector.query.run.rows import EmitterRow
from tracereel_collector.query.run.tree import build, settle


def outline(run):
    """Return the tree as (depth, kind, name) lines."""
    depths = {}
    lines = []
    for step in run.steps:
        depth = depths[id(step.parent)] + 1 if step.parent is not None else 0
        depths[id(step)] = depth
        lines.append((depth, step.kind, step.name))
    return lines


def test_a_run_with_spans_is_nested_by_them():
    run = build(
        rows(
            event("pipeline.started", 0, span_id="p", pipeline_type="booking"),
            event("execution.started", 1, span_id="a", parent_span_id="p", agent_name="parser"),
            event("llm.called", 5, start=2, span_id="m", parent_span_id="a", llm_model="qwen"),
            event("execution.completed", 6, start=1, span_id="a", parent_span_id="p"),
            event("pipeline.completed", 7, start=0, span_id="p", pipeline_type="booking"),
        )
    )

    assert outline(run) == [(0, "pipeline", "booking"), (1, "agent", "parser"), (2, "llm", "qwen")]
    assert [step.duration_ns for step in run.steps] == [7 * MILLI, 5 * MILLI, 3 * MILLI]
    assert run.ended - run.began == 7 * MILLI


def test_events_of_the_contract_alone_are_paired_and_nested_under_the_pipeline():
    """Without spans and executions, steps are paired by name and request."""
    run = build(
        rows(
            event("pipeline.started", 0, pipeline_type="booking", request_id="r"),
            event("execution.started", 1, agent_name="parser", request_id="r"),
            event("decision.recorded", 2, agent_name="parser", decision_type="dates"),
            event("execution.completed", 3, agent_name="parser", request_id="r", duration_ms=2),
            event("execution.started", 4, agent_name="parser", request_id="r"),
            event("execution.failed", 5, agent_name="parser", request_id="r"),
            event("pipeline.completed", 6, pipeline_type="booking", request_id="r"),
        )
    )

    assert outline(run) == [
        (0, "pipeline", "booking"),
        (1, "agent", "parser"),
        (1, "agent", "parser"),
    ]
    assert [step.status for step in run.steps] == ["success", "success", "failed"]
    assert [len(step.events) for step in run.steps] == [2, 3, 2]


def test_failure_without_a_start_event_uses_its_own_duration():
    run = build(rows(event("execution.failed", 40, agent_name="parser", duration_ms=30)))

    (step,) = run.steps
    assert (step.began, step.ended) == (BEGAN + 10 * MILLI, BEGAN + 40 * MILLI)


def test_a_call_inside_an_attempt_that_still_runs_hangs_under_the_agent():
    run = build(
        rows(
            event("execution.started", 0, span_id="a", agent_name="parser", execution_id="x"),
            event(
                *("tool.called", 2),
                start=1,
                span_id="t",
                parent_span_id="not yet known",
                execution_id="x",
                call_name="look",
            ),
        )
    )

    assert outline(run) == [(0, "agent", "parser"), (1, "tool", "look")]


def test_third_party_spans_are_nested_between_ours():
    run = build(
        rows(
            event("execution.started", 0, span_id="a", agent_name="parser"),
            event("llm.called", 9, start=3, span_id="m", parent_span_id="h", llm_model="qwen"),
            event("execution.completed", 10, start=0, span_id="a", agent_name="parser"),
            spans=[
                span("h", "a", 1, 9.5, name="POST /chat", span_kind="Client"),
                span("a", "", 0, 10, name="invoke_agent parser"),
            ],
        )
    )

    assert outline(run) == [(0, "agent", "parser"), (1, "span", "POST /chat"), (2, "llm", "qwen")]
    assert [step.source for step in run.steps] == ["both", "otlp", "events"]


def test_cyclic_parents_are_all_shown():
    run = build(
        rows(
            event("execution.started", 0, span_id="a", parent_span_id="b", agent_name="a"),
            event("execution.started", 1, span_id="b", parent_span_id="a", agent_name="b"),
            event("execution.started", 2, span_id="c", parent_span_id="c", agent_name="c"),
        )
    )

    assert outline(run) == [(0, "agent", "a"), (1, "agent", "b"), (0, "agent", "c")]


def test_a_run_that_another_started_hangs_under_it():
    run = build(
        rows(
            event("pipeline.started", 0, span_id="p", pipeline_type="outer"),
            event(
                *("execution.started", 1),
                trace_id="sub",
                parent_trace_id="trc",
                span_id="s",
                agent_name="inner",
            ),
            trace_ids=("trc", "sub"),
        )
    )

    assert outline(run) == [(0, "pipeline", "outer"), (1, "agent", "inner")]


def test_very_deep_tree_is_built():
    depth = 5_000
    run = build(
        rows(
            *(
                event(
                    *("execution.started", number),
                    span_id=f"s{number}",
                    parent_span_id=f"s{number - 1}" if number else "",
                    agent_name="a",
                )
                for number in range(depth)
            )
        )
    )

    assert [each[0] for each in outline(run)] == list(range(depth))


def test_clock_skew_of_minutes_is_corrected():
    """The second machine is five minutes ahead, the third five behind; each waited for the next."""

    def place(name, parent, order, skew, start, end):
        ids = {"span_id": name, "parent_span_id": parent, "agent_name": name, "emitter_id": name}
        return [
            event("execution.started", start + skew, hlc=600_000 + order, **ids),
            event(
                *("execution.completed", end + skew), start=start + skew, hlc=600_100 - order, **ids
            ),
        ]

    run = build(
        rows(
            *place("one", "", 1, 0, 0, 100),
            *place("two", "one", 2, 300_000, 10, 90),
            *place("three", "two", 3, -300_000, 20, 80),
        )
    )

    assert outline(run) == [(0, "agent", "one"), (1, "agent", "two"), (2, "agent", "three")]
    assert [round((step.began - run.began) / MILLI) for step in run.steps] == [0, 10, 20]
    assert run.clocks == {"two": -300_000 * MILLI, "three": 300_000 * MILLI}


def test_a_worker_that_begins_after_its_caller_ended_is_left_where_it_is():
    run = build(
        rows(
            event("execution.started", 0, span_id="a", agent_name="a", emitter_id="one"),
            event("execution.completed", 5, start=0, span_id="a", agent_name="a", emitter_id="one"),
            event(
                *("execution.completed", 9_000),
                start=8_000,
                span_id="b",
                parent_span_id="a",
                agent_name="b",
                emitter_id="two",
            ),
        )
    )

    assert not run.clocks
    assert run.steps[1].began == BEGAN + 8_000 * MILLI


def emitter(state, missing=0):
    return EmitterRow("emt", state, "", "", None, None, 5, 5 - missing, missing, 0, {}, None)


def open_run():
    return build(rows(event("execution.started", 0, span_id="a", agent_name="a", emitter_id="emt")))


def status(emitters, seconds=1):
    run = open_run()
    settle(run, emitters, now_unix_nano=BEGAN + seconds * 10**9)
    return run.steps[0].status


def test_unended_steps_are_running_or_crashed_with_their_emitter():
    assert status({"emt": emitter("alive")}, seconds=10**6) == "running"
    assert status({"emt": emitter("silent", missing=2)}) == "crashed"
    assert status({"emt": emitter("ended")}) == "crashed"
    assert status({"emt": emitter("recovered")}) == "crashed"
    assert status({"emt": emitter("ended", missing=1)}) == "unknown"
    assert status({}) == "running"
    assert status({"emt": emitter("unknown")}, seconds=10**6) == "unknown"


HELD = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
NAMES = st.sampled_from(["", "a", "b", "c", "d", "e"])
EVENTS = st.builds(
    lambda kind, at, taken, **fields: event(
        kind, at, start=at - taken if kind != "execution.started" else None, **fields
    ),
    st.sampled_from(
        [
            *("execution.started", "execution.completed", "execution.failed", "pipeline.started"),
            *("pipeline.completed", "llm.called", "tool.called", "retry.attempted"),
            *("decision.recorded", "fallback.triggered", "step.completed"),
        ]
    ),
    st.integers(0, 1_000),
    st.integers(0, 500),
    span_id=NAMES,
    parent_span_id=NAMES,
    agent_name=NAMES,
    request_id=NAMES,
    execution_id=NAMES,
    emitter_id=st.sampled_from(["", "one", "two"]),
    trace_id=st.sampled_from(["trc", "sub"]),
    parent_trace_id=st.sampled_from(["", "trc", "sub"]),
    tokens=st.none() | st.integers(0, 100),
    cost_usd=st.none() | st.floats(0, 1),
    retry_attempt=st.none() | st.integers(1, 3),
    delay_seconds=st.none() | st.floats(0, 2),
    fallback_agent=NAMES,
    fallback_successful=st.none() | st.booleans(),
    attempt=st.none() | st.integers(1, 3),
    step_type=st.sampled_from(["", "attempt", "retry", "fallback"]),
)
SPANS = st.builds(
    lambda span_id, parent, start, taken, kind: span(
        span_id, parent, start, start + taken, span_kind=kind
    ),
    st.sampled_from("abcdefgh"),
    NAMES,
    st.integers(0, 1_000),
    st.integers(0, 500),
    st.sampled_from(["Server", "Client", "Consumer", ""]),
).filter(lambda made: made.span_id != made.parent_span_id)
RUNS = st.builds(
    lambda events, spans: rows(
        *events,
        spans=list({each.span_id: each for each in spans}.values()),
        trace_ids=("trc", "sub"),
    ),
    st.lists(EVENTS, max_size=14),
    st.lists(SPANS, max_size=6),
).filter(lambda made: made.events or made.spans)


@HELD
@given(RUNS, st.booleans())
def test_every_event_and_span_has_one_place_behind_its_cause(made, attempts):
    run = build(made, attempts=attempts)

    told = [row.event_id for step in run.steps for row in step.events]
    told += [row.event_id for row in run.loose]
    assert sorted(told) == sorted(row.event_id for row in made.events)
    # The span of an idle attempt is left out with its step.
    expected = {row.span_id for row in made.spans}
    if not attempts:
        around = {"attempt", "retry", "fallback"}
        expected -= {step.id for step in build(made, attempts=True).steps if step.kind in around}
    assert expected <= {step.id for step in run.steps}
    places = {id(step): place for place, step in enumerate(run.steps)}
    assert len(places) == len(run.steps)
    for step in run.steps:
        assert step.parent is None or places[id(step.parent)] < places[id(step)]
        assert all(child.parent is step for child in step.children)
        assert step.end is None or step.end >= step.start
    for step in run.steps:
        if step.source == "otlp" and step.parent is not None and step.parent.source == "otlp":
            assert step.position > step.parent.position
