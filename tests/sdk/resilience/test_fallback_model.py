"""Fallbacks behave like a plain chain, over generated outcomes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sdk.resilience.scripted import Scripted
from tracereel import traced_agent
from tracereel.resilience import fallback

KINDS = st.sampled_from(["good", "refused", "error", "other", "stop"])


def outcome(kind, number):
    return {
        "good": f"good {number}",
        "refused": f"refused {number}",
        "error": OSError(f"error {number}"),
        "other": ValueError(f"other {number}"),
        "stop": KeyboardInterrupt(),
    }[kind]


def model(kinds, outcomes):
    """Return the outcome, and whether each attempted fallback succeeded."""
    if kinds[0] in ("good", "other", "stop"):
        return outcomes[0], []
    tried = []
    for kind, result in zip(kinds[1:], outcomes[1:], strict=True):
        tried.append(kind in ("good", "refused"))
        if tried[-1] or kind == "stop":
            return result, tried
    return outcomes[0], tried


@pytest.mark.usefixtures("_own_traces")
@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(KINDS, min_size=2, max_size=5), st.booleans())
def test_a_function_with_fallbacks_is_a_plain_chain(recorded, sink, kinds, around):
    outcomes = [outcome(kind, number) for number, kind in enumerate(kinds)]
    ending, tried = model(kinds, outcomes)
    before = len(sink.events)
    primary, *chain = [Scripted(each) for each in outcomes]
    decorate = fallback(to=chain, on=OSError, when=lambda result: result.startswith("refused"))
    agent = traced_agent("model_agent")
    call = decorate(agent(primary)) if around else agent(decorate(primary))

    try:
        result = call()
    except BaseException as error:
        result = error

    assert result is ending
    assert [each.calls for each in chain] == [1] * len(tried) + [0] * (len(chain) - len(tried))
    recorded()
    events = sink.events[before:]
    triggered = [event for event in events if event["event_type"] == "agent.fallback.triggered"]
    assert [event["fallback_successful"] for event in triggered] == tried
    assert {event["primary_agent"] for event in triggered} <= {"model_agent"}
    assert len({event["trace_id"] for event in events}) == 1
    assert events[-1]["trace_event_count"] == len(events)
    if not around and events[-1]["event_type"] == "agent.execution.completed":
        assert events[-1]["fallback_used"] is any(tried)
