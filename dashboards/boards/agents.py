"""What each agent does: rate, errors, latency, confidence, retries, fallbacks."""

from dashboards.panels import (
    Board,
    coloured,
    column,
    falling,
    label_variable,
    lines,
    prom,
    rising,
    sql,
    stat,
    table,
    table_of,
)

A = 'agent_name=~"$agent"'
RATE = f"sum by (agent_name) (rate(agent_executions_total{{{A}}}[$__rate_interval]))"
ALL = f"sum(rate(agent_executions_total{{{A}}}[$__rate_interval]))"
FAILED = f'sum(rate(agent_executions_total{{{A}, status="failed"}}[$__rate_interval])) or vector(0)'
BUCKETS = f"rate(agent_execution_duration_seconds_bucket{{{A}}}[$__rate_interval])"
ERRORS, RETRIES, CONFIDENCE = rising(0.05, 0.1), rising(0.2, 0.5), falling(0.6, 0.8)


def _quantile(share: float, *by: str) -> str:
    return f"histogram_quantile({share}, sum by ({', '.join((*by, 'le'))}) ({BUCKETS}))"


COARSE = "Below the smallest bucket, 100 ms, nothing is told apart: Pipelines has it exactly."


def _count(metric: str, label: str = "agent_name") -> str:
    return f'sum by ({label}) (increase({metric}{{{label}=~"$agent"}}[$__range]))'


BOARD = Board(
    uid="tracereel-agents",
    title="tracereel / Agents",
    about="Rate, errors, latency, confidence, retries and fallbacks of each agent.",
    variables=[label_variable("agent", "Agent", "agent_executions_total", "agent_name")],
    rows=[
        (
            "Every client, from the store",
            [
                stat(
                    "Executions, calls and tokens",
                    "Over the time shown; each model call once, with the agent that made it.",
                    sql("agents_now"), width=24,
                    overrides=[
                        column("executions", displayName="executions"),
                        coloured("failing", ERRORS, displayName="failing", unit="percentunit", decimals=1),
                        column("mean_duration", displayName="mean duration", unit="µs"),
                        column("calls_of_models", displayName="model calls"),
                        column("calls_of_tools", displayName="tool calls"),
                        column("tokens", displayName="tokens"),
                    ],
                ),
                lines(
                    "Executions, by agent", "That ended, per interval.",
                    sql("agent_executions", over_time=True), bars=True, stacked=True,
                ),
                lines(
                    "Failures, by agent", "Executions that failed, per interval.",
                    sql("agent_failures", over_time=True), bars=True, stacked=True,
                    defaults={"noValue": "no failures"},
                ),
                lines(
                    "Tokens, by agent", "Of the model calls of each agent, per interval.",
                    sql("agent_tokens", over_time=True), stacked=True,
                ),
                table(
                    "Agents in the store",
                    "Cost as sent, else by the price table; beside it the tokens that have no price.",
                    sql("agent_table"),
                    height=9,
                    overrides=[
                        coloured("failing", ERRORS, unit="percentunit", decimals=1),
                        column("mean_duration", displayName="mean duration", unit="µs"),
                        column("calls_of_models", displayName="model calls"),
                        column("calls_of_tools", displayName="tool calls"),
                        column("cost", unit="currencyUSD", decimals=4),
                        coloured(
                            "without_price", ((None, "text"), (1, "orange")), displayName="tokens without a price",
                        ),
                    ],
                ),
            ],
        ),
        (
            "Now, of programs with the SDK",
            [
                stat("Executions per second", "Executions that ended.", prom(ALL), defaults={"decimals": 1}),
                stat(
                    "Errors",
                    "Executions that failed, of all that ended. An attempt that is retried around the agent"
                    " counts as one.",
                    prom(f"({FAILED}) / ({ALL} > 0)"),
                    unit="percentunit",
                    steps=ERRORS,
                    defaults={"noValue": "idle", "decimals": 1},
                ),
                stat(
                    "Duration p95", f"95 of 100 executions are quicker. {COARSE}", prom(_quantile(0.95)), unit="s",
                    defaults={"noValue": "idle"},
                ),
                stat(
                    "Lowest confidence",
                    "Of the latest confidence of each agent.",
                    prom(f"min(agent_confidence{{{A}}})"),
                    unit="percentunit",
                    steps=CONFIDENCE,
                    defaults={"decimals": 0},
                ),
                stat(
                    "Retries per execution",
                    "Attempts that were repeated, for each execution.",
                    prom(f"(sum(rate(agent_retries_total{{{A}}}[$__rate_interval])) or vector(0)) / ({ALL} > 0)"),
                    steps=RETRIES,
                    defaults={"noValue": "idle", "decimals": 2},
                ),
                stat(
                    "Fallbacks per execution",
                    "Times another agent took over, for each execution.",
                    prom(
                        '(sum(rate(agent_fallbacks_total{primary_agent=~"$agent"}[$__rate_interval]))'
                        f" or vector(0)) / ({ALL} > 0)"
                    ),
                    steps=rising(0.05, 0.2),
                    defaults={"noValue": "idle", "decimals": 2},
                ),
            ],
        ),
        (
            "Work and errors",
            [
                lines("Executions per second", "Executions that ended, by agent.", prom(RATE, "{{agent_name}}")),
                lines(
                    "Share that fails",
                    "Failed of ended executions, over five minutes; the alert is at 10 %.",
                    prom(f"agent:error_ratio:rate5m{{{A}}}", "{{agent_name}}"),
                    unit="percentunit",
                    steps=((None, "green"), (0.1, "red")),
                ),
                lines(
                    "Errors per minute",
                    "Failed executions, by what kind of failure it was.",
                    prom(
                        f"60 * sum by (error_category) (rate(agent_errors_total{{{A}}}[$__rate_interval]))",
                        "{{error_category}}",
                    ),
                    bars=True,
                    stacked=True,
                    defaults={"noValue": "no errors"},
                ),
            ],
        ),
        (
            "How long it takes",
            [
                lines(
                    "Duration of all agents",
                    "Half, 95 and 99 of 100 executions are quicker. Points are single runs: click for the trace."
                    f" {COARSE}",
                    prom(_quantile(0.5), "p50"),
                    prom(_quantile(0.95), "p95", exemplars=True),
                    prom(_quantile(0.99), "p99"),
                    unit="s",
                    width=12,
                ),
                lines(
                    "Duration p95 by agent",
                    f"95 of 100 executions of the agent are quicker. {COARSE}",
                    prom(_quantile(0.95, "agent_name"), "{{agent_name}}", exemplars=True),
                    unit="s",
                    width=12,
                ),
            ],
        ),
        (
            "How sure it is, and what had to be done again",
            [
                lines(
                    "Confidence",
                    "The latest of each agent, averaged over its processes; the alert is at 60 %.",
                    prom(f"avg by (agent_name) (agent_confidence{{{A}}})", "{{agent_name}}"),
                    unit="percentunit",
                    steps=((None, "red"), (0.6, "green")),
                    defaults={"max": 1},
                ),
                lines(
                    "Retries per minute",
                    "Attempts that were repeated, by agent and reason.",
                    prom(
                        "60 * sum by (agent_name, retry_reason)"
                        f" (rate(agent_retries_total{{{A}}}[$__rate_interval]))",
                        "{{agent_name}}: {{retry_reason}}",
                    ),
                    bars=True,
                    stacked=True,
                    defaults={"noValue": "no retries"},
                ),
                lines(
                    "Fallbacks per minute",
                    "Takeovers: who, and by whom.",
                    prom(
                        "60 * sum by (primary_agent, fallback_agent)"
                        ' (rate(agent_fallbacks_total{primary_agent=~"$agent"}[$__rate_interval]))',
                        "{{primary_agent}} → {{fallback_agent}}",
                    ),
                    bars=True,
                    stacked=True,
                    defaults={"noValue": "no fallbacks"},
                ),
            ],
        ),
        (
            "Every agent in a line",
            [
                table(
                    "Agents",
                    "Counts are over the time shown above; the share that fails and p95 over the last five minutes.",
                    table_of(_count("agent_executions_total")),
                    table_of(f"sum by (agent_name) (agent:error_ratio:rate5m{{{A}}})"),
                    table_of(f"sum by (agent_name) (agent:duration_seconds:p95_5m{{{A}}})"),
                    table_of(f"avg by (agent_name) (agent_confidence{{{A}}})"),
                    table_of(_count("agent_retries_total")),
                    table_of(
                        'sum by (agent_name) (label_replace(increase(agent_fallbacks_total{primary_agent=~"$agent"}'
                        '[$__range]), "agent_name", "$1", "primary_agent", "(.+)"))'
                    ),
                    table_of(_count("tracereel_agent_cost_usd_total")),
                    height=9,
                    transformations=[
                        {"id": "merge", "options": {}},
                        {
                            "id": "organize",
                            "options": {
                                "excludeByName": {"Time": True},
                                "renameByName": {
                                    "agent_name": "Agent",
                                    "Value #A": "Executions",
                                    "Value #B": "Fail",
                                    "Value #C": "p95",
                                    "Value #D": "Confidence",
                                    "Value #E": "Retries",
                                    "Value #F": "Fallbacks",
                                    "Value #G": "Cost",
                                },
                            },
                        },
                    ],
                    overrides=[
                        column("Executions", decimals=0),
                        coloured("Fail", ERRORS, unit="percentunit", decimals=1),
                        column("p95", unit="s"),
                        coloured("Confidence", CONFIDENCE, unit="percentunit", decimals=0),
                        column("Retries", decimals=0),
                        column("Fallbacks", decimals=0),
                        column("Cost", unit="currencyUSD", decimals=4),
                    ],
                )
            ],
        ),
    ],
)  # fmt: skip
