"""The four goals of the service, each with its definition, its value and its threshold."""

from dashboards.panels import (
    BAD,
    GOOD,
    Board,
    Json,
    Panel,
    Steps,
    lines,
    note,
    of_query,
    prom,
    rising,
    stat,
)

MISSED_RATE = 'ALERTS{alertname="EventEmitRateBelowGoal"}'
OPEN_ALERTS = 'count(ALERTS{alertstate="firing"}) or vector(0)'
MISSED = {"value": None, "color": BAD}


def _goal(
    name: str,
    *,
    promise: str,
    text: str,
    unit: str,
    steps: Steps,
    judged: tuple[Json, ...] = (),
    **look: object,
) -> list[Panel]:
    defaults = {"decimals": 2, **look}
    return [
        stat(
            name, f"{promise} {text}", *(judged or (prom(name),)), unit=unit, steps=steps, width=5,
            height=6, defaults=dict(defaults),
            overrides=[of_query("B", thresholds={"mode": "absolute", "steps": [MISSED]})] if judged else [],
        ),
        lines(
            f"{name} over time", text, prom(name, name), unit=unit, steps=steps, width=11, height=6,
            defaults=dict(defaults),
        ),
        note(f"{name}: {promise}", text, width=8, height=6),
    ]  # fmt: skip


BOARD = Board(
    uid="tracereel-goals",
    title="tracereel / Goals",
    about="Whether the recorder keeps its four promises.",
    since="now-6h",
    rows=[
        (
            "Rate: more than 1,000 events a second while events wait",
            _goal(
                "event_emit_rate",
                promise="> 1,000/s when there is that much to do.",
                text="Events that all programs have recorded, per second, over five minutes."
                " A quiet system records less and that is fine: the alert asks for the goal only"
                " while more than a minute's worth of it waits in spools.",
                unit="eps",
                steps=((None, GOOD), (1000, GOOD)),
                judged=(
                    prom(f"event_emit_rate unless on() {MISSED_RATE}", instant=True),
                    prom(f"event_emit_rate and on() {MISSED_RATE}", instant=True),
                ),
            ),
        ),
        (
            "Loss: less than 0.01 % of events",
            _goal(
                "event_loss_rate",
                promise="< 0.01 %.",
                text="Events dropped for want of room or by a fault of ours, refused by the collector,"
                " or damaged on its disk, of all that were recorded or dropped, over five minutes."
                " What sampling leaves out is not lost.",
                unit="percentunit",
                steps=rising(0.00001, 0.0001),
                decimals=4,
            ),
        ),
        (
            "Completion: more than 95 % of runs",
            [
                *_goal(
                    "trace_completion_rate",
                    promise="> 95 %.",
                    text="Runs that were completed successfully and whose last event the collector has,"
                    " of those begun, over an hour. One that failed, was cancelled, whose process died,"
                    " or that is still going, is not.",
                    unit="percentunit",
                    steps=((None, BAD), (0.95, GOOD)),
                    noValue="no runs",
                    max=1,
                ),
                *_goal(
                    "trace_closed_rate",
                    promise="Beside it, > 95 %.",
                    text="Runs whose last event the collector has, of those begun, over an hour."
                    " A run that fails is closed when its failure is recorded.",
                    unit="percentunit",
                    steps=((None, BAD), (0.95, GOOD)),
                    noValue="no runs",
                    max=1,
                ),
            ],
        ),
        (
            "Latency: 95 % of events within 100 ms",
            _goal(
                "event_latency_p95",
                promise="< 100 ms.",
                text="From the moment an event happens to the moment the collector has it on disk and"
                " says so, for 95 of 100 events, over five minutes. Agents never wait for it.",
                unit="s",
                steps=((None, GOOD), (0.1, BAD)),
                noValue="no events",
                decimals=None,
            ),
        ),
        (
            "Alerts",
            [
                stat(
                    "Alerts firing",
                    "All alerts of this stack; RUNBOOK.md has a section for each.",
                    prom(OPEN_ALERTS),
                    steps=((None, "green"), (1, "red")),
                    width=5,
                    height=6,
                ),
                lines(
                    "Alerts firing over time",
                    "By name and severity.",
                    prom(
                        'sum by (alertname, severity) (ALERTS{alertstate="firing"})',
                        "{{alertname}} ({{severity}})",
                    ),
                    width=19,
                    height=6,
                    bars=True,
                    stacked=True,
                    defaults={"noValue": "none"},
                ),
            ],
        ),
    ],
)
