"""A retried function behaves like a plain loop, over generated outcomes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sdk.resilience.scripted import Scripted
from tracereel import traced_agent
from tracereel.resilience import fixed_delay, retry

KINDS = st.sampled_from(["good", "low", "error", "timeout", "fatal", "stop"])
MIN_CONFIDENCE = 0.5


class FatalError(Exception):
    pass


def outcome(kind, number):
    return {
        "good": 0.9,
        "low": 0.1,
        "error": OSError(f"error {number}"),
        "timeout": TimeoutError(f"late {number}"),
        "fatal": FatalError(f"fatal {number}"),
        "stop": KeyboardInterrupt(),
    }[kind]


def model(kinds, outcomes, attempts):
    """Return the calls, the outcome, and the events: attempt, reason and error of each."""
    events = []
    for number, (kind, result) in enumerate(zip(kinds, outcomes, strict=True), 1):
        if kind in ("good", "fatal", "stop") or number == attempts:
            return number, result, events
        reason = {"low": "low_confidence", "error": "error", "timeout": "timeout"}[kind]
        text = f"{type(result).__name__}: {result}" if kind != "low" else "LowConfidence: "
        events.append((number, reason, text))
    raise AssertionError("more outcomes than attempts are generated")


@pytest.mark.usefixtures("_own_traces")
@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(1, 6), st.lists(KINDS, min_size=6, max_size=6), st.booleans())
def test_a_retried_function_is_a_plain_loop(recorded, sink, attempts, kinds, is_async):
    outcomes = [outcome(kind, number) for number, kind in enumerate(kinds)]
    calls, ending, announced = model(kinds, outcomes, attempts)
    script, before, naps = Scripted(*outcomes), len(sink.events), []
    decorate = retry(
        attempts,
        never=FatalError,
        strategy=fixed_delay(0.25),
        min_confidence=MIN_CONFIDENCE,
        confidence_of=lambda result: result,
        sleep=naps.append,
    )

    if is_async:

        async def later():
            return script()

        agent = traced_agent("model_agent")(decorate(later))

        def call():
            # Not in a loop, which would handle KeyboardInterrupt differently.
            coroutine = agent()
            try:
                coroutine.send(None)
            except StopIteration as done:
                return done.value
            raise AssertionError("nothing here waits")
    else:
        call = traced_agent("model_agent")(decorate(script))

    try:
        result = call()
    except BaseException as error:
        result = error

    assert result is ending
    assert script.calls == calls
    assert naps == [0.25] * (calls - 1)
    recorded()
    events = sink.events[before:]
    retries = [event for event in events if event["event_type"] == "agent.retry.attempted"]
    assert [event["retry_attempt"] for event in retries] == [each[0] for each in announced]
    assert [event["retry_reason"] for event in retries] == [each[1] for each in announced]
    for event, (_, _, text) in zip(retries, announced, strict=True):
        assert event["original_error"].startswith(text)
    closing = events[-1]
    assert closing["retry_count"] == len(retries)
    assert closing["was_retried"] is bool(retries)
    assert closing["attempt"] == calls
    assert len({event["trace_id"] for event in events}) == 1
    assert closing["trace_event_count"] == len(events)
    if closing["event_type"] == "agent.execution.failed":
        used_up = calls == attempts > 1 and not isinstance(ending, FatalError)
        assert closing["max_retries_reached"] is used_up


def test_reference_model_of_retries():
    error = OSError("x")

    assert model(["error", "good"], [error, 0.9], 3) == (2, 0.9, [(1, "error", "OSError: x")])
