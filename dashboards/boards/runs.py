"""Runs out of the store, with the way into replay and traces."""

from dashboards.panels import (
    Board,
    Json,
    Panel,
    coloured,
    column,
    falling,
    lines,
    sql,
    sql_variable,
    table,
    text_variable,
    trace,
)

UID = "tracereel-runs"
LINKS = [
    {"title": "Show below", "url": f"/d/{UID}?${{__url_time_range}}&var-run=${{__value.raw}}"},
    {"title": "Replay", "url": "${collector_url}/#${__value.raw}", "targetBlank": True},
    {"title": "Jaeger", "url": "${jaeger_url}/search?tags=%7B%22trace_id%22%3A%22${__value.raw}%22%7D", "targetBlank": True},
]  # fmt: skip
RUN = column("run", links=LINKS, custom__width=270)
CONFIDENCE = coloured("confidence", falling(0.6, 0.8), unit="percentunit", decimals=0)
SOME = ((None, "text"), (1, "orange"))
STATUS = column(
    "status",
    mappings=[
        {
            "type": "value",
            "options": {
                "success": {"color": "green"},
                "partial_success": {"color": "orange"},
                "running": {"color": "blue"},
                "failed": {"color": "red"},
                "cancelled": {"color": "orange"},
            },
        }
    ],
    custom__cellOptions={"type": "color-text"},
)
LASTED = column("lasted", unit="ms")
WHEN = column("time", unit="time:YYYY-MM-DD HH:mm:ss")


def _statuses() -> Json:
    names = ("success", "failed", "partial_success", "cancelled", "running")
    return {
        "name": "status",
        "label": "Status",
        "type": "custom",
        "query": ",".join(names),
        "multi": True,
        "includeAll": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "options": [],
    }


def _newest_run() -> Json:
    made = sql_variable("run", "Run", "latest_run")
    return made | {"multi": False, "includeAll": False, "current": {}, "sort": 0}


BOARD = Board(
    uid=UID,
    title="tracereel / Run explorer",
    about="Find a run, look at its steps, go on to its replay or its trace.",
    variables=[
        text_variable("name", "Name holds"),
        _statuses(),
        _newest_run(),
        text_variable("collector_url", "Collector", "http://127.0.0.1:4318"),
        text_variable("jaeger_url", "Jaeger", "http://127.0.0.1:16686"),
    ],
    rows=[
        (
            "Runs",
            [
                lines(
                    "Runs by status",
                    "When they began.",
                    sql("run_statuses", over_time=True),
                    bars=True,
                    stacked=True,
                    width=24,
                    height=6,
                    overrides=[
                        column(name, color={"mode": "fixed", "fixedColor": color})
                        for name, color in (
                            ("success", "green"),
                            ("partial", "orange"),
                            ("failed", "red"),
                            ("others", "purple"),
                            ("running", "blue"),
                        )
                    ],
                ),
                table(
                    "Runs",
                    "The newest 500. Click a run: show it below, replay it, or see it in Jaeger.",
                    sql("runs"),
                    height=10,
                    overrides=[
                        RUN,
                        STATUS,
                        CONFIDENCE,
                        column("started", unit="time:YYYY-MM-DD HH:mm:ss"),
                        column("seconds", displayName="lasted", unit="s"),
                        coloured("errors", ((None, "text"), (1, "red"))),
                        coloured("retries", SOME),
                        coloured("fallbacks", SOME),
                        column("cost", unit="currencyUSD", decimals=4),
                    ],
                ),
            ],
        ),
        (
            "Run $run",
            [
                table(
                    "Events of the run",
                    "In the order in which they happened.",
                    sql("run_events"),
                    height=12,
                    width=12,
                    overrides=[
                        column("time", unit="time:HH:mm:ss.SSS"),
                        STATUS,
                        LASTED,
                        CONFIDENCE,
                        column("cost", unit="currencyUSD", decimals=5),
                        coloured("error", ((None, "red"),)),
                    ],
                ),
                Panel(
                    kind="traces",
                    title="Trace of the run",
                    about="Its spans, from the collector's own Jaeger API.",
                    targets=[trace("$run")],
                    width=12,
                    height=12,
                ),
            ],
        ),
        (
            "What to look at",
            [
                table(
                    "Latest failures",
                    "Executions that failed, the newest first.",
                    sql("failures"),
                    height=9,
                    width=12,
                    overrides=[WHEN, RUN, LASTED],
                ),
                table(
                    "Decisions taken with the least confidence",
                    "What an agent was unsure of, and why it decided so.",
                    sql("decisions"),
                    height=9,
                    width=12,
                    # All of them are low: a colour would only make the whole column red.
                    overrides=[WHEN, RUN, column("confidence", unit="percentunit", decimals=0)],
                ),
            ],
        ),
    ],
)
