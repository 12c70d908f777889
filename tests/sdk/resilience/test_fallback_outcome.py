"""A failed agent says whether the fallback inside of it succeeded."""

import pytest

from tracereel import traced_agent
from tracereel.resilience import fallback
from tracereel.testing import EventRecorder, assert_event


@pytest.mark.parametrize("outcome", ["failed too", "used, then failed", "second failed", "around"])
def test_a_failed_agent_says_whether_its_own_fallback_succeeded(outcome: str) -> None:
    def regex() -> str:
        if outcome == "failed too":
            raise LookupError("no match")
        return "matched"

    def broken() -> str:
        raise LookupError("no match")

    @fallback(to=regex)
    def parse() -> str:
        raise ConnectionError("the model is away")

    @fallback(to=broken)
    def resolve() -> str:
        raise ConnectionError("the model is away")

    @traced_agent("parsing_agent")
    def agent() -> str:
        parse()
        if outcome == "second failed":
            resolve()
        raise ValueError("for another reason")

    call = fallback(to=lambda: "from outside")(agent) if outcome == "around" else agent
    with EventRecorder() as events:
        if outcome == "around":
            assert call() == "from outside"
        else:
            with pytest.raises((ConnectionError, ValueError)):
                call()
    expected = {"failed too": False, "used, then failed": True, "second failed": False}
    assert_event(
        events,
        "agent.execution.failed",
        fallback_attempted=True,
        fallback_successful=expected.get(outcome),
    )


def test_an_agent_without_a_fallback_has_no_outcome_of_one() -> None:
    @traced_agent("parsing_agent")
    def agent() -> str:
        raise ValueError("x")

    with EventRecorder() as events, pytest.raises(ValueError, match="x"):
        agent()
    failed = assert_event(events, "agent.execution.failed", fallback_attempted=False)
    assert failed["fallback_successful"] is None
