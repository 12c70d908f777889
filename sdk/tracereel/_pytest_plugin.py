"""The pytest plugin: the fixture `recorded_events`, and tests that run against a tape.

Loaded by pytest through its entry point. It imports nothing of the SDK until it is used: it is loaded
in every run of pytest.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tracereel.testing import EventRecorder

_RUN: "pytest.StashKey[Any]" = pytest.StashKey()


@pytest.fixture
def recorded_events() -> "Iterator[EventRecorder]":
    """Every event recorded during the test: in memory, nothing written, nothing sent."""
    from tracereel.testing import EventRecorder

    with EventRecorder() as recorder:
        yield recorder


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tracereel-update`."""
    parser.addoption(
        "--tracereel-update",
        action="store_true",
        help="Make the calls of tests with a tape for real, and record their tapes anew.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "tracereel_tape(path, **options): run the test against a recorded run;"
        " the options are those of tracereel.replay",
    )


@pytest.fixture
def tape_run(request: pytest.FixtureRequest) -> Any:
    """The re-execution that a test marked with `tracereel_tape` runs in."""
    return _run_of(request.node)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Run a marked test within its tape."""
    if pyfuncitem.get_closest_marker("tracereel_tape") is None:
        return (yield)
    from tracereel.tape.pytest_support import around

    with around(_run_of(pyfuncitem)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Name a divergence in pytest's summary by its first line: in CI pytest repeats whole texts there."""
    report = yield
    if _RUN in item.stash and report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            crash.message = crash.message.strip().split("\n", 1)[0]
    return report


def _run_of(item: Any) -> Any:
    from tracereel.tape.pytest_support import run_of

    if _RUN not in item.stash:
        update = item.config.getoption("--tracereel-update")
        item.stash[_RUN] = run_of(item, update=update)
    return item.stash[_RUN]
