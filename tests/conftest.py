"""What holds for every test: none is failed by a slow machine, and long ones begin early."""

import os
import signal
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parent

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Tests start hundreds of processes that import the same modules: they need be compiled only once.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Programs of Debian's that `make test` has unpacked, not installed (.ci/tools).
UNPACKED = TESTS.parent / ".venv" / "debian" / "usr"
for folder in (UNPACKED / "bin", UNPACKED / "sbin"):
    if folder.is_dir():
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"

# A shell that runs the tests in its background has Ctrl-C ignored, also in every process they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONG = (
    *("architecture", "kill", "lifecycle", "burst", "backup", "workers", "migrate_store", "page"),
    *("outage", "sdk", "deletion", "openapi", "forward", "many", "upgrade", "self_observation"),
)
"""Modules that take long, most of them with few tests; the longest first."""
FOLDERS = ("e2e", "dashboards", "collector", "queue")


def pytest_collection_modifyitems(items):
    """What takes long comes first: a long module at the end would have one core while the other waits."""
    items.sort(key=_place)


def _place(item):
    name = item.path.stem.removeprefix("test_")
    folder = item.path.relative_to(TESTS).parts[0]
    return (
        LONG.index(name) if name in LONG else len(LONG),
        FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS),
    )
