"""Line of the test run's summary: how many rows of the seeds were run and documented."""

import re

from tests.seeds.rows import all_rows

_ROW = re.compile(r"tests/seeds/test_rows\.py::test_row\[(.+)\]$")


def pytest_terminal_summary(terminalreporter):
    """Print the count of rows, if any was run; with xdist the reports of all workers are here."""
    run = set()
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            found = _ROW.search(getattr(report, "nodeid", ""))
            if found and outcome in ("passed", "failed"):
                run.add(found[1])
    if not run:
        return
    rows = all_rows()
    documented = sum(row.check is None for row in rows)
    counts = f"seed rows: {len(rows)}, run {len(run)}, documented {documented}"
    terminalreporter.write_line(counts)
