"""Metrics of several processes are merged, whatever the state of their files."""

import subprocess
import sys

from prometheus_client import CollectorRegistry, generate_latest

from tracereel_collector.telemetry import SharedMetrics

COUNTS = """
import sys
from pathlib import Path
from prometheus_client import CollectorRegistry, Counter
from tracereel_collector.telemetry import share_metrics
share_metrics(Path(sys.argv[1]), slot=sys.argv[2])
Counter("things", "Things.", registry=CollectorRegistry()).inc(2)
"""


def test_a_file_that_was_just_made_hides_no_other(tmp_path):
    """A process killed between creating and writing its file leaves it empty."""
    for slot in ("1", "2"):
        subprocess.run([sys.executable, "-c", COUNTS, str(tmp_path), slot], check=True)
    (tmp_path / "counter_3.db").touch()
    registry = CollectorRegistry()
    SharedMetrics(registry, str(tmp_path))

    assert "things_total 4.0" in generate_latest(registry).decode()
