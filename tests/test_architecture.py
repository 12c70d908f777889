"""Imports and connections of each package; `make check` covers the static rules."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CLIENTS = [
    *("anthropic", "openai", "google.genai", "langchain_core", "langgraph", "mcp", "agents"),
    *("pydantic_ai", "httpx", "httpx2"),
]


def test_http_connections_are_opened_by_one_module():
    opens = re.compile(r"\b(?:HTTPS?Connection|urlopen|build_opener|HTTPAdapter)\(")
    files = [*(ROOT / "sdk").rglob("*.py"), *(ROOT / "collector").rglob("*.py")]
    found = {str(file.relative_to(ROOT)) for file in files if opens.search(file.read_text())}

    # ClickHouse's client has its own.
    own = {"collector/tracereel_collector/store/clickhouse.py"}
    assert found - own == {"sdk/tracereel/_export/http_client.py"}


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("tracereel_collector.app", ["chdb"]),
        ("tracereel_collector.processes.serve", ["chdb"]),
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
