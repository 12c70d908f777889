"""The page on providers: its snippets run, and its tables match the code."""

import re
from pathlib import Path
from typing import Any

import pytest

from tracereel.providers import PERSISTENCE, ROLES, STOP_REASONS
from tracereel.providers.event_store import EVENT_STORE_TYPES, FRONTEND_TYPES

PAGE = (Path(__file__).parents[3] / "docs" / "sdk" / "providers.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_the_snippet_runs(number: int, recorded_events: Any) -> None:
    code = compile(SNIPPETS[number], f"providers.md:{number}", "exec", dont_inherit=True)
    exec(code, {"__name__": "snippet"})
    if "record_decision" in SNIPPETS[number]:
        (decision,) = recorded_events.get_events("agent.decision.recorded")
        assert (decision["decision_type"], decision["chosen"]) == ("routing", "business-central")
        assert decision["output_data"]["rule"] == "slash_command"


@pytest.mark.parametrize("name", [*FRONTEND_TYPES, "stream_start", "citation", "stream_end"])
def test_every_type_is_described(name: str) -> None:
    assert f"`{name}`" in PAGE or name == "tool_call"


def test_documented_table_of_types_matches_the_code() -> None:
    for name in ("user_message", "thinking", "tool_request", "tool_response", "assistant_message"):
        assert f"| `{name}` | {ROLES[name]} | {PERSISTENCE[name]} |" in PAGE


def test_documented_table_of_names_matches_the_code() -> None:
    for name, stored in EVENT_STORE_TYPES.items():
        if name != "tool_call":
            assert f"| `{name}` | `{stored}` | `{FRONTEND_TYPES[name]}` |" in PAGE


def test_every_word_of_anthropic_and_openai_is_in_the_table() -> None:
    words = {*STOP_REASONS["anthropic"], *STOP_REASONS["openai"]}
    assert [word for word in sorted(words) if f"`{word}`" not in PAGE] == []
