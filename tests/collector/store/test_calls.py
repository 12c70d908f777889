"""Which spans describe one call of a model."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracereel_collector.store.calls import MAX_ALIKE, CallSpan, calls_of

ANSWERED = {"prompt": 10, "completion": 5, "tokens": 15, "models": ("m",)}


def span(key, parent=None, begin=0, end=10, **fields):
    return CallSpan(key=key, parent=parent, began=begin, ended=end, **fields)


def call(key, parent=None, begin=0, end=10, **fields):
    return span(key, parent, begin, end, **{"kind": "llm", "scope": "a", **fields})


def counted(*spans):
    repeats = calls_of(spans).repeats
    return sorted(each.key for each in spans if each.is_call and each.key not in repeats)


def test_the_innermost_of_calls_around_a_call_is_counted():
    spans = (
        call("outer", **ANSWERED),
        span("chain", "outer", kind="step"),
        span("other", "chain"),
        call("inner", "other", **ANSWERED),
    )

    assert counted(*spans) == ["inner"]


def test_a_call_around_two_calls_is_not_counted_beside_them():
    spans = (call("outer", **ANSWERED), *(call(n, "outer", **ANSWERED) for n in "xy"))

    assert counted(*spans) == ["x", "y"]


def test_a_call_with_usage_is_counted_for_those_inside_of_it_without():
    assert counted(call("outer", **ANSWERED), call("inner", "outer")) == ["outer"]


def test_a_failed_pair_is_one_failed_call():
    assert counted(call("o", is_failed=True), call("i", "o", is_failed=True)) == ["i"]


@pytest.mark.parametrize("kind", ["agent", "tool", "workflow", "pipeline"])
def test_calls_of_an_agent_or_tool_inside_of_a_call_are_others(kind):
    spans = (call("c", **ANSWERED), span("t", "c", kind=kind), call("d", "t", **ANSWERED))

    assert counted(*spans) == ["c", "d"]


def test_an_event_of_the_sdk_is_counted_for_the_span_inside_of_it():
    spans = (call("event", is_own=True, **ANSWERED), call("span", "event", **ANSWERED))

    assert counted(*spans) == ["event"]


def test_an_event_without_usage_gives_way_to_the_span_that_has_it():
    assert counted(call("event", is_own=True), call("span", "event", **ANSWERED)) == ["span"]


def test_calls_beside_each_other_with_one_answer_are_one():
    spans = (call("x", response_id="r1", **ANSWERED), call("y", response_id="r1", agent="helper"))

    found = calls_of(spans)
    assert found.repeats == {"y": "x"}
    assert found.agents == {"x": "helper"}


def test_usage_logged_at_the_end_of_a_stream_is_that_of_the_call_before():
    """Logfire ends the span of the request when the stream begins, and logs usage when it ends."""
    request = call("request", end=2, models=("m",))
    logged = call("log", begin=9, end=9, **ANSWERED)

    assert counted(request, logged) == ["log"]
    assert counted(request, call("client", "request", scope="b", **ANSWERED), logged) == ["client"]


@pytest.mark.parametrize(
    "before",
    [
        call("before", end=2, **ANSWERED),
        call("before", end=2, models=("m",), scope="b"),
        call("before", end=2, models=("n",)),
        call("before", end=2, models=("m",), is_failed=True),
        call("before", begin=10, end=12, models=("m",)),
    ],
    ids=["has usage", "other scope", "other model", "failed", "later"],
)
def test_usage_at_a_point_in_time_is_of_its_own_beside_other_calls(before):
    assert len(counted(before, call("log", begin=9, end=9, **ANSWERED))) == 2


def test_each_of_two_parallel_streams_has_one_of_two_logs():
    requests = [call(f"r{n}", end=n, models=("m",)) for n in (1, 2)]
    logs = [call(f"l{n}", begin=n, end=n, **ANSWERED) for n in (8, 9)]

    assert counted(*requests, *logs) == ["l8", "l9"]
    inside = [call(f"i{n}", f"r{n}", end=n, models=("m",)) for n in (1, 2)]
    assert counted(*requests, *inside, *logs) == ["l8", "l9"]


def test_what_failed_inside_of_a_failed_call_is_no_failure_beside_it():
    call_ = call("call", is_failed=True)
    request = span("http", "call", is_failed=True)

    assert calls_of((call_, request)).repeats == {"http": "call"}
    assert calls_of((call("call"), request)).repeats == {}
    assert calls_of((call_, span("http", "call", is_failed=True, kind="tool"))).repeats == {}


def test_an_answer_is_known_by_the_call_around_the_one_that_is_counted():
    spans = (
        call("outer", response_id="r1", **ANSWERED),
        call("inner", "outer", **ANSWERED),
        call("beside", begin=20, end=30, response_id="r1", **ANSWERED),
    )

    assert len(counted(*spans)) == 1


def test_calls_within_each_other_in_time_are_one_only_between_instrumentations():
    inner = call("inner", begin=2, end=8, **ANSWERED)

    assert counted(call("outer", scope="b", **ANSWERED), inner) == ["inner"]
    assert counted(call("outer", scope="a", **ANSWERED), inner) == ["inner", "outer"]


@pytest.mark.parametrize(
    "other",
    [
        {"models": ("n",)},
        {"completion": 6, "tokens": 16},
        {"is_failed": True},
        {"begin": 1, "end": 20},
    ],
    ids=str,
)
def test_calls_that_differ_are_two(other):
    outer = call("outer", **{"scope": "b", **ANSWERED, **other})

    assert counted(outer, call("inner", **ANSWERED)) == ["inner", "outer"]


def test_calls_with_different_answers_are_two():
    outer = call("outer", scope="b", response_id="r1", **ANSWERED)

    assert len(counted(outer, call("i", begin=1, end=9, response_id="r2", **ANSWERED))) == 2


def test_a_model_is_known_by_its_alias_and_its_version():
    outer = call("o", scope="b", **{**ANSWERED, "models": ("openai/gpt-4o",)})
    inner = call("i", begin=1, end=9, **{**ANSWERED, "models": ("gpt-4o-2024-08-06",)})

    assert counted(outer, inner) == ["i"]
    mini = msgspec.structs.replace(inner, models=("gpt-4o-mini",))
    assert counted(outer, mini) == ["i", "o"]


def test_parallel_calls_of_two_instrumentations_stay_two():
    outer = [call(f"o{n}", begin=n, end=100 + n, scope="b", **ANSWERED) for n in range(2)]
    inner = [call(f"i{n}", begin=10 + n, end=50 + n, **ANSWERED) for n in range(2)]

    assert counted(*outer, *inner) == ["i0", "i1"]


def test_a_call_has_the_agent_of_the_nearest_span_above_it_that_names_one():
    spans = (
        span("team", kind="agent", agent="team"),
        span("helper", "team", kind="agent", agent="helper"),
        span("step", "helper"),
        call("call", "step"),
    )

    assert calls_of(spans).agents == {"call": "helper"}


def test_cycles_and_very_many_equal_calls_end():
    ring = [call(str(n), str((n + 1) % 300), **ANSWERED) for n in range(300)]
    calls_of(ring)

    alike = [call(f"a{n:04}", scope="ab"[n % 2], **ANSWERED) for n in range(3 * MAX_ALIKE)]
    assert len(counted(*alike)) == 3 * MAX_ALIKE - MAX_ALIKE // 2


@st.composite
def twofold(draw):
    """Return real calls, and the same with the spans of a second instrumentation."""
    spans, others = [span("root", end=10_000, kind="agent", agent="helper")], []
    for number in range(draw(st.integers(1, 8))):
        begin = draw(st.integers(1, 3)) * 100  # many at the same time
        fields = dict(ANSWERED) if draw(st.booleans()) else {"is_failed": True, "models": ("m",)}
        answer = f"r{number}" if fields.get("tokens") else ""
        one = call(f"c{number}", "root", begin, begin + 50 + number, response_id=answer, **fields)
        spans.append(one)
        about = {"trace": "", "scope": "second", "response_id": ""}
        how = draw(st.sampled_from(["around", "inside", "answer", "time"]))
        if how == "answer" and answer:
            again = {"key": f"d{number}", "response_id": answer, "began": 5, "ended": 6}
        elif how == "inside":
            again = {"key": f"d{number}", "parent": one.key, "began": one.began + 1}
        elif how == "around":
            again = {"key": f"d{number}", "ended": one.ended + 1}
            spans[-1] = msgspec.structs.replace(one, parent=f"between{number}")
            others.append(span(f"between{number}", f"d{number}"))
        else:
            again = {"key": f"d{number}", "began": one.began - 1, "ended": one.ended + 1}
        others.append(msgspec.structs.replace(one, **{**about, **again}))
    return spans, others


@given(twofold(), st.randoms(use_true_random=False))
def test_a_second_instrumentation_and_another_order_change_no_total(told, shuffled: random.Random):
    spans, others = told
    alone = [msgspec.structs.replace(each, parent=_parent(each, others)) for each in spans]
    together = [*spans, *others]
    shuffled.shuffle(together)

    assert totals(together) == totals(alone)
    assert totals(sorted(together, key=lambda each: each.key)) == totals(together)


def _parent(each, others):
    """Return the parent of a span where the second instrumentation is off."""
    return "root" if each.parent in {other.key for other in others} else each.parent


def totals(spans):
    found = calls_of(spans)
    kept = [each for each in spans if each.is_call and each.key not in found.repeats]
    agents = {found.agents.get(each.key, "") for each in kept}
    return len(kept), sum(each.tokens or 0 for each in kept), agents
