"""The snippets of the pages on tracing, decisions, pipelines, failures and delivery run as printed."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.ingest_sink import IngestSink
from tracereel import failures

DOCS = Path(__file__).parents[2] / "docs" / "sdk"
PAGES = (
    "../sdk.md",
    "tracing.md",
    "decisions.md",
    "pipelines.md",
    "failures.md",
    "delivery.md",
)


def snippets(page: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize(
    ("page", "number"), [(page, n) for page in PAGES for n in range(len(snippets(page)))]
)
def test_the_snippet_runs(
    page: str, number: int, recorded: Any, sink: IngestSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEREEL_ENDPOINT", sink.url)  # for snippets that configure
    monkeypatch.setattr(failures, "_own", ())
    code = compile(snippets(page)[number], f"{page}:{number}", "exec", dont_inherit=True)
    exec(code, {"__name__": "snippet"})
    assert recorded() or page == "failures.md"


def test_the_table_of_the_page_has_every_code() -> None:
    text = (DOCS / "failures.md").read_text(encoding="utf-8")
    codes = {rule.code for rule in failures.DEFAULT_RULES if rule.code}
    assert [code for code in sorted(codes) if f"`{code}`" not in text] == []
