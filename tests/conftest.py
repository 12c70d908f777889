"""Configuration for all tests: generous timeouts for slow machines, long modules first."""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings
from opentelemetry import trace
from opentelemetry.util._once import Once

from tests.seeds.summary import pytest_terminal_summary
from tests.support.clickhouse_server import clickhouse_server, new_server

__all__ = ["clickhouse_server", "new_server", "pytest_terminal_summary"]

TESTS = Path(__file__).parent

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Tests start hundreds of processes that import the same modules; compile them only once.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Debian programs that `make test` unpacks without installing them (.ci/tools).
UNPACKED = TESTS.parent / ".venv" / "debian" / "usr"
for folder in (UNPACKED / "bin", UNPACKED / "sbin"):
    if folder.is_dir():
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"

# A background shell ignores SIGINT, and so would every process started by the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONG = (
    *("architecture", "kill", "same_answers", "lifecycle", "burst", "backup", "workers", "rows"),
    *("time_parsers", "process_guard", "migrate_store", "page", "outage", "sdk", "deletion"),
    *("openapi", "forward", "many", "upgrade", "self_observation", "time_patterns"),
)
"""Slow modules, most of them with few tests; the slowest first."""
FOLDERS = ("e2e", "dashboards", "collector", "queue")


def pytest_collection_finish():
    """Exclude all imported modules and tests from later garbage collections."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items):
    """Run slow modules first, so that none is left alone on one core at the end."""
    items.sort(key=_place)


def _place(item):
    name = item.path.stem.removeprefix("test_")
    folder = item.path.relative_to(TESTS).parts[0]
    return (
        LONG.index(name) if name in LONG else len(LONG),
        FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS),
    )


@pytest.fixture(autouse=True, scope="module")
def _no_global_provider_afterwards():
    """Unset a global tracer provider that a module has set: later modules would export to it."""
    before = trace._TRACER_PROVIDER
    yield
    if before is None and trace._TRACER_PROVIDER is not None:
        trace._TRACER_PROVIDER.shutdown()
        trace._TRACER_PROVIDER = None
        trace._TRACER_PROVIDER_SET_ONCE = Once()
