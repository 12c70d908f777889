"""Spans of other instrumentations in an agent program are stored beside its events."""

import os
import subprocess
import sys

from tests.support.waiting import wait_until

PROGRAM = """
import tracereel
from opentelemetry import trace

tracereel.configure()
tracer = trace.get_tracer("library")

@tracereel.traced_agent("a")
def agent():
    with tracer.start_as_current_span("SELECT"):
        pass

for _ in range(20):
    agent()
"""


def test_program_spans_are_stored_and_own_spans_are_not_sent_twice(collector, tmp_path):
    def stored():
        return collector.metric("tracereel_records_stored_total", kind="spans")

    before = stored()
    environ = {
        **os.environ,
        "TRACEREEL_ENDPOINT": collector.url,
        "TRACEREEL_SPOOL_DIR": str(tmp_path),
        "TRACEREEL_EVENT_LOGS": "off",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")

    wait_until(lambda: stored() >= before + 20)
    assert stored() == before + 20
