"""The documentation covers every route, metric, command and option."""

import argparse
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tracereel._core import recorder
from tracereel.cli import build_parser, registry
from tracereel_collector.http.build import ROUTES
from tracereel_collector.ingest.redaction import Redactor
from tracereel_collector.queue.queue import COUNTERS
from tracereel_collector.telemetry import (
    SCRAPED,
    AccessMetrics,
    AlertMetrics,
    DeliveryMetrics,
    ForwardMetrics,
    HttpMetrics,
    OtlpMetrics,
    RetentionMetrics,
    ScrapedMetrics,
    SelfMetrics,
    TailMetrics,
    ThrottleMetrics,
)

DOCS = Path(__file__).parent.parent / "docs"
README = (DOCS.parent / "README.md").read_text(encoding="utf-8")


def test_every_route_is_described():
    text = (DOCS / "http.md").read_text(encoding="utf-8")
    routes = [
        (method, route.path)
        for route in ROUTES
        for method in route.methods
        if not route.path.startswith("/web/")
    ]

    assert len(routes) >= 8
    assert [f"{m} {path}" for m, path in routes if f"`{m} {path}`" not in text] == []


def test_every_metric_is_described():
    text = (DOCS / "http.md").read_text(encoding="utf-8")
    metrics = CollectorRegistry()
    DeliveryMetrics.register(metrics)
    HttpMetrics.register(metrics)
    AccessMetrics.register(metrics)
    Redactor(metrics)
    OtlpMetrics.register(metrics)
    TailMetrics.register(metrics)
    AlertMetrics.register(metrics)
    ThrottleMetrics.register(metrics)
    ForwardMetrics.register(metrics)
    RetentionMetrics.register(metrics)
    SelfMetrics.register(metrics)
    counters = dict.fromkeys([(name, "events") for name in (*COUNTERS, "rejected:other")], 0)
    metrics.register(ScrapedMetrics(lambda: counters, lambda: dict.fromkeys(SCRAPED, 0)))
    names = set(re.findall(r"(?m)^# TYPE (\S+)", generate_latest(metrics).decode()))

    def described(name):
        return name in text or re.sub(r"records_\w+_total", "records_{", name) in text

    # A counter without labels is exported with its creation time.
    named = sorted(name for name in names if not name.endswith("_created"))
    assert [name for name in named if not described(name)] == []


@pytest.mark.parametrize("name", sorted(registry.help_lines()))
def test_every_command_and_option_is_described(name):
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    section = re.search(rf"(?ms)^## `tracereel {name}\b.*?(?=^## |\Z)", text)
    assert section, f"docs/cli.md has no section on {name}"
    parser = build_parser({name: registry.load(name)})
    (subparsers,) = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    options = [
        option
        for action in subparsers.choices[name]._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    ]

    assert [option for option in options if option not in section.group()] == []


def test_the_readme_shows_how_to_run_and_test():
    assert "make run" in README
    assert "make test" in README


def test_links_between_documents_lead_somewhere():
    broken = [
        f"{document.name}: {target}"
        for document in [
            *(DOCS.parent / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md")),
            *DOCS.rglob("*.md"),
        ]
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
        if not (document.parent / target).exists()
    ]

    assert broken == []


def test_the_snippets_of_every_page_of_the_sdk_are_run_by_a_test():
    tests = "".join(
        each.read_text(encoding="utf-8") for each in (DOCS.parent / "tests").rglob("*.py")
    )
    pages = [DOCS / "sdk.md", *(DOCS / "sdk").glob("*.md")]
    shown = [page.name for page in pages if "```python" in page.read_text(encoding="utf-8")]
    bare = [page.name for page in pages if page.name not in shown]

    # Each test that runs snippets names its pages.
    assert [name for name in shown if not re.search(rf'"(\.\./)?{re.escape(name)}"', tests)] == []
    assert bare == ["safety.md"], "a page of promises has none; every other one shows how"


def test_every_fault_has_a_row_and_every_test_named_there_exists():
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    files = set(re.findall(r"tests/[\w/]+\.py", text))
    assert [name for name in sorted(files) if not (DOCS.parent / name).is_file()] == []

    rows = re.findall(r"(?m)^\| (T\d+|[EGH]) \|(.*)", text)
    assert [row for row, _ in rows] == [*(f"T{number}" for number in range(1, 26)), *"EGH"]
    for row, cells in rows:
        proofs = re.findall(r"`(tests/[\w/]+\.py)`: ((?:`test_\w+`(?:, )?)+)", cells)
        named = [(file, name) for file, names in proofs for name in re.findall(r"\w+", names)]
        assert len(named) == cells.count("`test_") > 0, f"{row}: each test stands behind its file"
        for file, name in named:
            source = (DOCS.parent / file).read_text(encoding="utf-8")
            assert re.search(rf"(?m)^ *(async )?def {name}\(", source), f"{row}: {file} {name}"


def test_every_test_that_the_page_on_security_names_exists():
    text = (DOCS / "security.md").read_text(encoding="utf-8")
    files = [DOCS.parent / name for name in re.findall(r"tests/[\w/]+\.py", text)]
    assert [file.name for file in files if not file.is_file()] == []

    assert re.findall(r"(?m)^\| ([A-Z])\. ", text) == [*"ABCDF"]
    defined = "".join(file.read_text(encoding="utf-8") for file in files)
    named = re.findall(r"`(test_\w+)`", text)
    assert named
    assert [name for name in named if f"def {name}(" not in defined] == []


def test_the_readmes_example_runs(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.setenv("TRACEREEL_SPOOL_DIR", str(tmp_path))
    monkeypatch.setenv("TRACEREEL_ENDPOINT", "http://127.0.0.1:9")
    # As in a separate program, without configuration by other tests.
    monkeypatch.setattr(recorder, "_active", recorder._UNSET)
    names = {}

    exec(compile(code, "README.md", "exec"), names)

    assert names["parse"]("cita mañana")["doctor"] == "Dr. Pérez"
    assert list(tmp_path.rglob("*.ndjson"))
    names["tracereel"].shutdown(0)
