"""The Goals board of the demo, as a newcomer with Prometheus sees it."""

import pytest

from tests.dashboards.preview import Preview
from tests.support import grafana
from tests.support.prometheus import tool
from tests.support.stack import demo_stack
from tests.support.waiting import wait_until

BOARD = "tracereel-goals"
GOALS = ("event_emit_rate", "event_loss_rate", "trace_completion_rate", "trace_closed_rate")
"""The latency depends on the machine's load; `bench/latency.py` measures it."""


@pytest.mark.e2e
@pytest.mark.skipif(tool("prometheus") is None, reason="no `prometheus` here")
def test_the_goals_of_the_demo_are_green(tmp_path):
    panels = {
        panel["title"]: panel
        for panel in grafana.BOARDS[BOARD]["panels"]
        if panel["type"] == "stat"
    }
    with demo_stack(tmp_path) as stack:
        preview = Preview(stack)
        preview.board = BOARD

        def colors():
            return {
                title: [color for color, _ in preview.stats(panels[title])]
                for title in (*GOALS, "Alerts firing")
            }

        wait_until(
            lambda: set(map(tuple, colors().values())) == {("green",)},
            timeout=90,
            message="not all goals are green",
        )
        assert wait_until(lambda: preview.stats(panels["event_latency_p95"]))
