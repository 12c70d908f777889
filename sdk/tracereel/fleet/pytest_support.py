"""Pytest support for fleet files: `--tracereel-fleet FILE`.

All runs of the file are one item, because causes are known only after the last of them. Each group
of runs with the same cause is reported as a test of its own.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tracereel.errors import TracereelError
from tracereel.fleet import verdicts
from tracereel.fleet.file import FleetFile
from tracereel.fleet.groups import CauseGroup, FleetPolicy, FleetSummary, counted, summarize
from tracereel.fleet.report import text_of
from tracereel.fleet.runner import FleetSettings, run_all
from tracereel.fleet.verdicts import RunVerdict
from tracereel.tape.text import printable

MARKER: Final = "tracereel_fleet"
MAX_NAME: Final = 300
_NO_BRACKETS: Final = str.maketrans("[]", "()")


class FleetPlugin:
    """Adds a fleet file to the tests of a session."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        """Add the file; `-k` and `-m` choose among all tests afterwards."""
        item: pytest.Item = FleetItem.from_parent(session, name=self._path.name, path=self._path)
        items.append(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        """Report the groups before the item itself."""
        report = yield
        if isinstance(item, FleetItem) and call.when == "call" and item.summary is not None:
            reports = list(_reports(item, item.summary))
            item.session.testscollected += len(reports)
            for each in reports:
                item.ihook.pytest_runtest_logreport(report=each)
        return report


class FleetItem(pytest.Item):
    """All runs of a fleet file."""

    def __init__(self, *, path: Path, **given: Any) -> None:
        super().__init__(path=path, nodeid=printable(path.name), **given)
        self.summary: FleetSummary | None = None
        self.policy = FleetPolicy()
        self.add_marker(MARKER)

    def runtest(self) -> None:
        """Execute the runs with the code of the working directory."""
        file = FleetFile(self.path)
        settings = FleetSettings(
            root=self.config.invocation_params.dir,
            processes=_processes(),
            search=tuple(self.config.getini("pythonpath")),
        )
        found: list[RunVerdict] = []
        with verdicts.writing(verdicts.beside(self.path)) as writer:

            def finished(verdict: RunVerdict) -> None:
                found.append(verdict)
                writer.add(verdict)

            run_all(file, settings, finished)
        self.summary = summarize(found)
        if self.policy.uncovered(self.summary):
            least = f"expected at least {self.policy.min_coverage:.1%}"
            pytest.fail(f"{self.summary}; {least}", pytrace=False)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """Return the message of an error of ours, else the traceback."""
        if isinstance(excinfo.value, TracereelError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the place that pytest shows."""
        return self.path, None, self.name


def _processes() -> int:
    """Return how many processors this worker of pytest-xdist has for itself."""
    workers = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    return max(1, (os.cpu_count() or 1) // int(workers))


def _reports(item: FleetItem, summary: FleetSummary) -> Iterator[pytest.TestReport]:
    """Yield a report per group: failed if its verdict fails, else skipped."""
    for group in summary.groups:
        name = f"{group.verdict}: {group.cause}"
        fails = group.verdict in item.policy.fail_on
        yield _report(item, name, _headed(group), fails=fails)
    if summary.flaky:
        names = "\n".join(printable(each.trace_id) for each in summary.flaky)
        fails = "flaky" in item.policy.fail_on
        yield _report(item, "flaky", f"{counted(len(summary.flaky))} flaky\n{names}", fails=fails)


def _headed(group: CauseGroup) -> str:
    text = "\n".join(map(printable, text_of(group).splitlines()))
    return f"{counted(len(group.runs))} {group.verdict}: {printable(group.cause)}\n{text}"


def _report(item: FleetItem, name: str, text: str, *, fails: bool) -> pytest.TestReport:
    # Pytest takes what is in brackets for a parameter.
    shown = printable(name)[:MAX_NAME].translate(_NO_BRACKETS)
    # A worker of pytest-xdist may only report the items that it has collected.
    in_worker = hasattr(item.config, "workerinput")
    return pytest.TestReport(
        nodeid=item.nodeid if in_worker else f"{item.nodeid}::{shown}",
        location=(str(item.path), None, shown),
        keywords={MARKER: 1},
        outcome="failed" if fails else "skipped",
        longrepr=text if fails else (str(item.path), 0, text.partition("\n")[0]),
        when="call",
    )
