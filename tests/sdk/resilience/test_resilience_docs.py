"""The page on retries and fallbacks: its snippets run, and every name is described."""

import inspect
import re
from pathlib import Path

import pytest

from tracereel import resilience

PAGE = Path(__file__).parents[3] / "docs" / "sdk" / "retry-and-fallback.md"
TEXT = PAGE.read_text(encoding="utf-8")
SNIPPETS = re.findall(r"(?ms)^```python\n(.*?)^```", TEXT)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippets_run(number, recorded):
    if "tenacity" in SNIPPETS[number]:
        pytest.importorskip("tenacity")
    if "stamina" in SNIPPETS[number]:
        stamina = pytest.importorskip("stamina")
        stamina.instrumentation.set_on_retry_hooks([])
    exec(compile(SNIPPETS[number], f"{PAGE.name}:{number}", "exec"), {"__name__": "snippet"})
    assert recorded()


def test_there_are_snippets():
    assert len(SNIPPETS) >= 5


@pytest.mark.parametrize("name", ["retry", "fallback", "exponential_backoff", "fixed_delay"])
def test_every_option_is_described(name):
    options = inspect.signature(getattr(resilience, name)).parameters

    assert [option for option in options if f"`{option}`" not in TEXT] == []


def test_every_public_name_is_described_and_loads():
    assert sorted(resilience.__all__) == resilience.__all__
    for name in resilience.__all__:
        assert f"`{name}" in TEXT
        assert getattr(resilience, name) is not None
