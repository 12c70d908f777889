"""A verdict names what was not compared; what can be compared is."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

import tracereel
from tracereel import traced_agent, traced_tool
from tracereel.tape import Report, payloads


class Basket(dict[str, int]):
    """Dictionary with an attribute."""

    def __init__(self, **items: int) -> None:
        super().__init__(items)
        self.currency = "EUR"


class RefusedError(Exception):
    def __init__(self, *, code: Any) -> None:
        super().__init__()
        self.code = code


@traced_tool("send", effect="irreversible")
def send(given: Any) -> str:
    return "sent"


@traced_tool("slow", effect="read")
async def slow() -> str:
    await asyncio.sleep(0.05)
    return "done"


def nested(value: Any) -> Any:
    for _ in range(100):
        value = [value]
    return value


@pytest.fixture
def replayed(taped: Any) -> Callable[[Callable[[Any], Any], Any, Any], Report]:
    """Record a function with one value, and replay it with another."""

    def run(function: Callable[[Any], Any], recorded: Any, now: Any) -> Report:
        given = [recorded]
        agent = traced_agent("clerk")(lambda: function(given[0]))
        _, tape = taped(agent)
        given[0] = now
        again = tracereel.replay(tape, mode="report")
        with contextlib.suppress(RefusedError, asyncio.CancelledError), again:
            agent()
        return again.report

    return run


@pytest.mark.parametrize(
    ("recorded", "now", "named"),
    [
        ("eve@example.com", "bob@example.com", "what is redacted in an argument of send"),
        (nested(1), nested(2), "nested more than"),
        ({1: 2}.keys(), {2: 2}.keys(), "dict_keys"),
        (iter([1]), iter([2]), "list_iterator"),
    ],
    ids=["redacted", "deep", "view", "iterator"],
)
def test_arguments_that_cannot_be_compared_are_named(
    replayed: Any, recorded: Any, now: Any, named: str
) -> None:
    report = replayed(lambda value: send(value) and None, recorded, now)

    assert report.verdict == "same"
    assert named in report.not_compared[0]
    assert named in report.headline


def test_arguments_that_are_compared_are_not_named(replayed: Any) -> None:
    report = replayed(lambda value: send([value, len]), 1, 1)

    assert (report.verdict, report.not_compared) == ("same", [])


def test_the_content_of_a_container_with_attributes_is_named(replayed: Any) -> None:
    report = replayed(lambda value: value, Basket(mugs=1), Basket(mugs=2))

    assert "Basket" in report.not_compared[0]


def test_a_result_that_was_too_long_to_keep_is_named(
    replayed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payloads, "MAX_TEXT", 1_000)
    report = replayed(lambda value: value, "x" * 2_000, "x" * 2_000)

    assert report.verdict == "same"
    assert "too long" in report.headline


@pytest.mark.parametrize(
    ("recorded", "now", "verdict"),
    [
        (1, 1, "same"),
        (1, 2, "changed"),
        ("stock", "credit", "changed"),
        ("0f" * 16, "a1" * 16, "same"),
        (0.25, 0.26, "same"),
    ],
    ids=["equal", "number", "text", "id", "measured"],
)
def test_plain_attributes_of_an_exception_count(
    replayed: Any, recorded: Any, now: Any, verdict: str
) -> None:
    def refuse(code: Any) -> None:
        raise RefusedError(code=code)

    assert replayed(refuse, recorded, now).verdict == verdict


@pytest.mark.parametrize(
    ("now", "verdict"), [(0.01, "same"), (0.02, "same"), (30.0, "changed"), (None, "changed")]
)
def test_a_time_limit_that_ended_a_call_is_compared(
    replayed: Any, now: float | None, verdict: str
) -> None:
    async def limited(seconds: float | None) -> str:
        try:
            async with asyncio.timeout(seconds):
                return await slow()
        except TimeoutError:
            return "late"

    assert replayed(lambda seconds: asyncio.run(limited(seconds)), 0.01, now).verdict == verdict
