"""The snippets of the page on replay run as printed, against a tape of the same name."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.conftest import SDK
from tracereel import traced_agent, traced_decision, traced_llm, traced_tool

PAGE = "replay.md"
TEXT = (SDK.parent / "docs" / "sdk" / PAGE).read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@traced_llm("model-small")
def ask(model: str, prompt: str) -> str:
    return f"{model}: {prompt}"


@traced_tool("search", effect="read")
def search(query: str) -> dict[str, list[str]]:
    return {"hits": [query]}


@traced_decision("routing")
def route(found: dict[str, list[str]]) -> str:
    return "agent" if found["hits"] else "human"


@traced_agent("helper")
def help_user() -> list[str]:
    first = ask("model-small", "hello")
    chosen = route(search("opening hours"))
    return [first, chosen, ask("model-small", "good bye"), ask("model-small", "last words")]


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_the_snippet_runs(
    number: int, taped: Any, tmp_path: Path, recorded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, tape = taped(help_user)
    tape.save(tmp_path / "run.tape.ndjson")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(SNIPPETS[number], f"{PAGE}:{number}", "exec", dont_inherit=True), names)
    run = names.get("run")
    assert run is None or run.report.served > 0
