"""Reports of fleet replays escape what programs and senders wrote."""

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

import pytest

from tracereel.cli.fleet_report import lines_of
from tracereel.cli.terminal import Terminal
from tracereel.fleet.execution import without_numbers
from tracereel.fleet.groups import FleetPolicy, summarize
from tracereel.fleet.prompts import PromptChange
from tracereel.fleet.report import as_html, as_json, as_junit
from tracereel.fleet.verdicts import Cause, RunVerdict

HOSTILE = "</pre><script>alert(1)</script>\"' onload=x \x1b[31m\x00\u202e\ud800&lt;]]>"


def verdict(trace_id: str, **given: Any) -> RunVerdict:
    return RunVerdict(**{"trace_id": trace_id, "verdict": "changed", **given})


@pytest.fixture
def hostile() -> list[RunVerdict]:
    cause = Cause(kind=HOSTILE, place=HOSTILE, code=HOSTILE, argument=HOSTILE)
    given: dict[str, Any] = {
        "causes": (cause, Cause(kind=HOSTILE)),
        "text": HOSTILE,
        "agents": (HOSTILE,),
        "pipelines": (HOSTILE,),
        "prompts": (
            PromptChange(
                model=HOSTILE, provider=HOSTILE, recorded_model=f"{HOSTILE}0", calls=1, tokens=1
            ),
        ),
        "culprit": HOSTILE,
        "network": HOSTILE,
    }
    return [verdict(HOSTILE, **given), verdict(f"{HOSTILE}2", **given, flaky=(HOSTILE, "same"))]


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[str]]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append((tag, sorted(name for name, _ in attrs)))


def test_a_page_has_only_the_tags_of_its_template(hostile: list[RunVerdict]) -> None:
    tags = Tags()
    page = as_html(summarize(hostile), FleetPolicy())
    tags.feed(page)
    page.encode()

    assert {tag for tag, _ in tags.seen} == {
        *("html", "meta", "title", "style", "h1", "h2", "p", "article", "dl", "dt", "dd"),
        *("pre", "code", "details", "summary"),
    }
    names = {name for _, names in tags.seen for name in names}
    assert names == {"lang", "charset", "http-equiv", "content", "name", "class"}


def test_junit_is_well_formed(hostile: list[RunVerdict]) -> None:
    suite = ET.fromstring(as_junit(summarize(hostile), FleetPolicy(min_coverage=1.0)))

    assert suite.get("failures") == "2"
    assert suite.get("tests") == str(len(suite)) == "4"


def test_a_terminal_gets_no_control_characters(hostile: list[RunVerdict]) -> None:
    lines = list(lines_of(summarize(hostile), FleetPolicy(), Terminal()))

    assert [line for line in lines if not line.isprintable()] == []


def test_groups_are_sorted_by_verdict_and_size_and_name_what_follows() -> None:
    first, second = Cause(kind="changed", place="a"), Cause(kind="output", place="a")
    found = [
        *(verdict(f"a{n}", causes=(first, second), agents=("x",)) for n in range(3)),
        verdict("b", causes=(second,), agents=("y",)),
        verdict("c", verdict="inconclusive", causes=(Cause(kind="stalled"),)),
        verdict("d", verdict="same"),
    ]

    report = as_json(summarize(found), FleetPolicy(min_coverage=0.5))

    assert [(each["verdict"], each["count"]) for each in report["groups"]] == [
        ("changed", 3),
        ("changed", 1),
        ("inconclusive", 1),
    ]
    assert report["groups"][0]["following"][0]["count"] == 3
    assert report["coverage"] == round(5 / 6, 6)
    assert report["failures"] == ["4 runs are changed"]


def test_an_empty_fleet_has_no_coverage() -> None:
    assert FleetPolicy().failures(summarize([])) == ["coverage is 0.0%; expected 90.0%"]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("messages[0].content", "messages[*].content"),
        ("a[12][3]", "a[*][*]"),
        ("a['x'].b", "a['x'].b"),
        ("a[", "a["),
        ("value", "value"),
    ],
)
def test_paths_of_arguments_have_no_numbers(where: str, expected: str) -> None:
    assert without_numbers(where) == expected
