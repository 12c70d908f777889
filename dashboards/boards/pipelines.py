"""How pipelines end, how long they take, and where the time goes."""

from dashboards.panels import (
    BAD,
    GOOD,
    Board,
    bars,
    coloured,
    column,
    falling,
    label_variable,
    lines,
    prom,
    rising,
    sql,
    sql_variable,
    stat,
    table,
)

ENDED = 'sum(rate(tracereel_pipelines_total{pipeline_type=~"$pipeline_type"}[$__rate_interval]))'
FAILURES = rising(0.05, 0.1)
MS = {"unit": "ms"}

BOARD = Board(
    uid="tracereel-pipelines",
    title="tracereel / Pipelines",
    about="Status, duration and completion of pipelines, and where their time goes.",
    variables=[
        label_variable("pipeline_type", "Pipeline", "tracereel_pipelines_total", "pipeline_type"),
        sql_variable("pipeline", "Pipeline in tables", "pipelines"),
    ],
    rows=[
        (
            "Now",
            [
                stat("Runs per minute", "Pipelines ended.", prom(f"60 * {ENDED}"), width=6, defaults={"decimals": 1}),
                stat(
                    "Share that fails",
                    "Failed of ended pipelines.",
                    prom(
                        '(sum(rate(tracereel_pipelines_total{pipeline_type=~"$pipeline_type", status="failed"}'
                        f"[$__rate_interval])) or vector(0)) / ({ENDED} > 0)"
                    ),
                    unit="percentunit",
                    steps=FAILURES,
                    width=6,
                    defaults={"noValue": "idle", "decimals": 1},
                ),
                stat(
                    "Runs completed",
                    "Runs of the last hour that were completed successfully; the goal is 95 %.",
                    prom("trace_completion_rate"),
                    unit="percentunit",
                    steps=((None, BAD), (0.95, GOOD)),
                    width=6,
                    defaults={"noValue": "no runs", "decimals": 1},
                ),
                stat(
                    "Runs going on",
                    "Begun by the programs that are scraped, and not ended yet.",
                    prom(
                        'sum(tracereel_sdk_runs_total{stage="opened"})'
                        ' - sum(tracereel_sdk_runs_total{stage="closed"})'
                    ),
                    width=6,
                    defaults={"decimals": 0},
                ),
            ],
        ),
        (
            "How they end",
            [
                lines(
                    "Runs per minute, by status",
                    "Pipelines that ended.",
                    prom(
                        "60 * sum by (status) (rate(tracereel_pipelines_total"
                        '{pipeline_type=~"$pipeline_type"}[$__rate_interval]))',
                        "{{status}}",
                    ),
                    bars=True,
                    stacked=True,
                    width=12,
                ),
                lines(
                    "Share that fails, by pipeline",
                    "Over five minutes; the alert is at 10 %.",
                    prom('pipeline:failure_ratio:rate5m{pipeline_type=~"$pipeline_type"}', "{{pipeline_type}}"),
                    unit="percentunit",
                    steps=((None, "green"), (0.1, "red")),
                    width=12,
                ),
            ],
        ),
        (
            "Where the time goes",
            [
                lines(
                    "Duration",
                    "Of pipelines that ended, out of the store.",
                    sql("pipeline_durations", over_time=True),
                    unit="ms",
                    width=8,
                ),
                lines(
                    "Agents at work at once",
                    "Seconds of work per second, by agent: 1 is one execution all the time.",
                    prom(
                        "sum by (agent_name) (rate(agent_execution_duration_seconds_sum[$__rate_interval]))",
                        "{{agent_name}}",
                    ),
                    unit="none",
                    stacked=True,
                    width=8,
                ),
                bars(
                    "Time of tools, by tool",
                    "Share of the time of all tools, by tool.",
                    prom(
                        "sum by (tool_name) (rate(tracereel_tool_duration_seconds_sum[$__rate_interval]))"
                        " / scalar(sum(rate(tracereel_tool_duration_seconds_sum[$__rate_interval])) > 0)",
                        "{{tool_name}}",
                        instant=True,
                    ),
                    unit="percentunit",
                    width=8,
                    defaults={"min": 0, "max": 1, "noValue": "no tools"},
                ),
                table(
                    "Time by agent",
                    "Share of its pipeline's time that each agent took; agents in parallel add up to more than 100 %.",
                    sql("pipeline_steps"),
                    height=9,
                    width=12,
                    overrides=[
                        column("share", unit="percentunit", decimals=0, custom__cellOptions={"type": "gauge"}, max=1, min=0),
                        column("p50", **MS),
                        column("p95", **MS),
                        column("failed", displayName="failed executions"),
                    ],
                ),
                table(
                    "Pipelines",
                    "Over the time shown above, out of the store.",
                    sql("pipeline_table"),
                    height=9,
                    width=12,
                    overrides=[
                        coloured("failed", FAILURES, unit="percentunit", decimals=1),
                        column("p50", **MS),
                        column("p95", **MS),
                        column("longest", **MS),
                        coloured("confidence", falling(0.6, 0.8), unit="percentunit", decimals=0),
                    ],
                ),
            ],
        ),
    ],
)  # fmt: skip
