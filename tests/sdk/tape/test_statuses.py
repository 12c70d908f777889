"""Status and confidence of agents, and results of unknown classes, are compared."""

from collections.abc import Iterator
from typing import Any

import pytest

import tracereel
from tracereel import current_execution, traced_agent, traced_pipeline, traced_tool
from tracereel.tape import Report, Tape

changes: set[str] = set()


class Receipt:
    """Result of a class that no codec knows."""

    def __init__(self, total: float, lines: list[Any]) -> None:
        self.total = total
        self.lines = lines


class Line:
    """Part of a receipt, without a dictionary."""

    __slots__ = ("name", "price")

    def __init__(self, name: str, price: float) -> None:
        self.name = name
        self.price = price


@traced_tool("look", effect="read")
def look(text: str) -> str:
    return text.upper()


@traced_tool("print", effect="read")
def printed(text: str) -> Receipt:
    return Receipt(1.0, [text])


@traced_agent("judge")
def judge(text: str) -> dict[str, Any]:
    found = look(text)
    if "raises" in changes:
        raise ValueError(found)
    if "another" in changes:
        raise KeyError(found)
    execution = current_execution()
    assert execution is not None
    if "set" in changes:
        execution.set(confidence=0.5)
    return {"label": found, "confidence": 0.4 if "result" in changes else 0.9}


@traced_pipeline("desk")
def desk(text: str) -> str:
    try:
        judge(text)
    except (ValueError, KeyError):
        pass
    execution = current_execution()
    assert execution is not None
    execution.set(confidence=0.2 if "outer" in changes else 0.8)
    return "done"


@traced_agent("till")
def till(text: str) -> Receipt:
    if "served" in changes:
        return printed(text)
    look(text)
    line = Line(text, 3.0 if "slot" in changes else 2.0)
    return Receipt(5.0 if "attribute" in changes else 2.0, [line])


@pytest.fixture(autouse=True)
def _unchanged() -> Iterator[None]:
    changes.clear()
    yield
    changes.clear()


def report_of(program: Any, tape: Tape, *change: str) -> Report:
    changes.clear()
    changes.update(change)
    with tracereel.replay(tape, mode="report") as run:
        program("tea")
    return run.report


@pytest.mark.parametrize(
    ("before", "change", "text"),
    [
        ("", "raises", "it raised, and returned on the tape"),
        ("raises", "", "it returned, and raised on the tape"),
        ("raises", "another", "it raised KeyError, and ValueError on the tape"),
        ("", "result", "its confidence is 0.4, and 0.9 on the tape"),
        ("", "set", "its confidence is 0.5, and 0.9 on the tape"),
        ("", "outer", "its confidence is 0.2, and 0.8 on the tape"),
    ],
)
def test_another_status_or_confidence_of_an_agent_is_a_change(
    before: str, change: str, text: str, taped: Any
) -> None:
    changes.add(before)
    _, tape = taped(lambda: desk("tea"))

    assert report_of(desk, tape, before).verdict == "same"
    report = report_of(desk, tape, change)
    assert report.verdict == "changed"
    assert [each.kind for each in report.divergences] == ["output"]
    assert report.divergences[0].detail == text


@pytest.mark.parametrize(
    ("change", "difference"),
    [("attribute", "total: 2.0 → 5.0"), ("slot", "lines[0].price: 2.0 → 3.0")],
)
def test_a_result_of_an_unknown_class_is_compared_by_its_attributes(
    change: str, difference: str, taped: Any
) -> None:
    _, tape = taped(lambda: till("tea"))

    same = report_of(till, tape)
    assert (same.verdict, same.not_compared) == ("same", [])
    report = report_of(till, tape, change)
    assert report.verdict == "changed"
    assert [str(each) for each in report.divergences[0].differences] == [difference]


def test_an_object_that_is_not_on_the_tape_is_not_compared_and_the_verdict_says_so(
    taped: Any,
) -> None:
    changes.add("served")
    _, tape = taped(lambda: till("tea"))

    report = report_of(till, tape, "served")
    assert report.verdict == "same"
    assert "; not compared: objects in the result that are not on the tape" in report.headline


def test_the_status_of_an_agent_stops_a_strict_replay(taped: Any) -> None:
    _, tape = taped(lambda: desk("tea"))
    changes.add("result")

    with pytest.raises(tracereel.tape.DivergenceError, match="confidence"), tracereel.replay(tape):
        desk("tea")
