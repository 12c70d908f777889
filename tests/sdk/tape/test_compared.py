"""What a replay compares besides calls: decisions, and parameters left at their defaults."""

import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

import tracereel
from tracereel import record_decision, traced_agent, traced_decision, traced_tool
from tracereel.tape import Report, Tape

changes: set[str] = set()


@traced_tool("look", effect="read")
def look(text: str) -> str:
    return text.upper()


@traced_agent("router")
def route(text: str) -> str:
    found = look(text)
    if "left out" not in changes:
        chosen = "robot" if "choice" in changes else "human"
        confidence = 0.4 if "confidence" in changes else 0.9
        record_decision("routing", chosen=chosen, confidence=confidence)
    if "added" in changes:
        record_decision("routing", chosen="human", confidence=0.9)
    with traced_decision("block") as decision:
        decision.set(chosen="b" if "block" in changes else "a")
    return found


@pytest.fixture(autouse=True)
def _unchanged() -> Iterator[None]:
    changes.clear()
    yield
    changes.clear()


@pytest.fixture
def tape(taped: Any) -> Tape:
    found: Tape = taped(lambda: route("hello"))[1]
    return found


def report_of(tape: Tape, change: str = "") -> Report:
    changes.add(change)
    with tracereel.replay(tape, mode="report") as run:
        route("hello")
    return run.report


def test_unchanged_decisions_are_the_same(tape: Tape) -> None:
    assert report_of(tape).verdict == "same"


@pytest.mark.parametrize("change", ["choice", "confidence", "left out", "added", "block"])
def test_a_decision_that_differs_is_a_change(tape: Tape, change: str) -> None:
    report = report_of(tape, change)

    assert report.verdict == "changed"
    assert [each.kind for each in report.divergences] == ["decision"]


def _made(source: str) -> Any:
    """Return the program of a source."""
    names: dict[str, Any] = {"__name__": __name__}
    exec(textwrap.dedent(source), names)
    return names["serve"]


PROGRAM = """
from tracereel import traced_agent, traced_tool


@traced_tool("search", effect="read")
def search(text{tool}):
    return [text]


@traced_agent("server")
def serve(text, limit={limit}):
    return search(text * limit{given})
"""


@pytest.fixture
def served(taped: Any) -> Tape:
    serve = _made(PROGRAM.format(tool="", limit=1, given=""))
    found: Tape = taped(lambda: serve("x"))[1]
    return found


@pytest.mark.parametrize(
    ("tool", "limit", "given", "verdict"),
    [
        ("", 1, "", "same"),
        (", top=5", 1, "", "same"),
        (", *, top=5", 1, "", "same"),
        (", top=5", 1, ", top=6", "changed"),
        ("", 2, "", "changed"),
    ],
)
def test_parameters_left_at_their_defaults(
    served: Tape, tool: str, limit: int, given: str, verdict: str
) -> None:
    program = _made(PROGRAM.format(tool=tool, limit=limit, given=given))
    with tracereel.replay(served, mode="report") as run:
        run.call(program)

    assert run.report.verdict == verdict, str(run.report)
