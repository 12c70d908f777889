"""Pytest plugin: the `recorded_events` fixture and tests that run against a tape.

Pytest loads it in every run through an entry point, so it imports the SDK only when it is used.
"""

import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tracereel.testing import EventRecorder

_RUN: "pytest.StashKey[Any]" = pytest.StashKey()


@pytest.fixture
def recorded_events() -> "Iterator[EventRecorder]":
    """Record all events of the test in memory; nothing is written or sent."""
    from tracereel.testing import EventRecorder

    with EventRecorder() as recorder:
        yield recorder


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tracereel-update` and `--tracereel-fleet`."""
    parser.addoption(
        "--tracereel-update",
        action="store_true",
        help="Make the calls of tests with a tape for real, and record their tapes again.",
    )
    parser.addoption(
        "--tracereel-fleet",
        metavar="FILE",
        help="Also execute the runs of a file that `tracereel fleet pull` has written; each cause"
        " of a difference is a failure.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and the fleet file if there is one."""
    config.addinivalue_line(
        "markers",
        "tracereel_tape(path, **options): run the test against a recorded run;"
        " the options are those of tracereel.replay",
    )
    config.addinivalue_line("markers", "tracereel_fleet: the runs of the file of --tracereel-fleet")
    if fleet := config.getoption("--tracereel-fleet"):
        from tracereel.fleet.pytest_support import FleetPlugin

        path = config.invocation_params.dir / fleet
        if not path.is_file():
            raise pytest.UsageError(f"--tracereel-fleet {fleet}: there is no such file")
        config.pluginmanager.register(FleetPlugin(path), "tracereel_fleet")


@pytest.fixture
def tape_run(request: pytest.FixtureRequest) -> Any:
    """Return the re-execution of a test marked with `tracereel_tape`."""
    return _run_of(request.node)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Run a marked test within its tape."""
    if pyfuncitem.get_closest_marker("tracereel_tape") is None:
        return (yield)
    from tracereel.tape.pytest_support import around

    with around(_run_of(pyfuncitem)):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Stop the `MockEventCollector` of a test."""
    if (testing := sys.modules.get("tracereel.testing")) is not None:
        testing.stop_collectors()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Shorten a divergence to its first line in the summary; pytest repeats whole texts in CI."""
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
