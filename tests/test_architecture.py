"""The house rules, held by tools: format, lint, types, directions of import, sizes of modules."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
CLIENTS = [
    *("anthropic", "openai", "google.genai", "langchain_core", "langgraph", "mcp", "agents"),
    *("pydantic_ai", "httpx", "httpx2"),
]


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "format", "--check", "."],
        ["ruff", "check", "."],
        ["mypy"],
        ["lint-imports"],
    ],
    ids=lambda command: command[0] + command[1] if len(command) > 1 else command[0],
)
def test_the_tools_find_nothing(command):
    done = subprocess.run(
        [BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_no_module_is_longer_than_500_lines():
    files = [
        file
        for folder in ("sdk", "collector", "tests", "bench", "docs", "examples", "dashboards")
        for pattern in ("*.py", "*.js", "*.css", "*.html", "*.sql")
        for file in (ROOT / folder).rglob(pattern)
    ]

    assert [file.name for file in files if len(file.read_text().splitlines()) > 500] == []


def test_every_module_says_its_job_first():
    files = [*(ROOT / "sdk").rglob("*.py"), *(ROOT / "collector").rglob("*.py")]

    assert [str(file) for file in files if not file.read_text().startswith('"""')] == []


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("tracereel_collector.app", ["chdb"]),
        ("tracereel_collector.serve", ["chdb"]),
        ("tracereel", ["fastapi", "uvicorn", "clickhouse_connect", "chdb", "tracereel_collector"]),
        ("tracereel.providers", ["anthropic", "openai", "langchain_core", "pydantic", "structlog"]),
        ("tracereel", CLIENTS),
        ("tracereel.integrations.anthropic", CLIENTS),
        ("tracereel.integrations.openai", CLIENTS),
        ("tracereel.cli", ["fastapi", "chdb", "tracereel_collector", "pydantic"]),
    ],
)
def test_importing_a_part_does_not_load_what_it_can_do_without(module, absent):
    script = f"import sys, {module}; print([name for name in {absent!r} if name in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
