"""The snippets of the page on clients run as printed, against the stand-in."""

import gc
import re
import warnings
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "sdk" / "integrations.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.usefixtures("own_agents_tracing")
@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_the_snippet_runs(number, standin, events, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", standin.url)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{standin.url}/v1")
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
    code = compile(SNIPPETS[number], f"integrations.md:{number}", "exec", dont_inherit=True)

    with warnings.catch_warnings():
        # Snippets leave their clients open, to be short.
        warnings.simplefilter("ignore", ResourceWarning)
        exec(code, {"__name__": "snippet"})
        gc.collect()

    assert list(events) or "instrument()" in SNIPPETS[number]
