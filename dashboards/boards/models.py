"""What models are asked, what they cost, and what of that was for nothing."""

from dashboards.panels import (
    Board,
    coloured,
    column,
    label_variable,
    lines,
    prom,
    rising,
    sql,
    stat,
    table,
)

M = 'llm_provider=~"$provider", llm_model=~"$model"'
P = 'llm_provider=~"$provider"'
USD = "currencyUSD"
CALLS = f"sum(rate(tracereel_llm_calls_total{{{M}}}[$__rate_interval]))"
COST, WASTE = "tracereel_agent_cost_usd_total", "tracereel_agent_wasted_cost_usd_total"


def _hourly(metric: str, by: str, labels: str = "") -> str:
    return f"3600 * sum by ({by}) (rate({metric}{labels}[$__rate_interval]))"


BOARD = Board(
    uid="tracereel-models",
    title="tracereel / Models and cost",
    about="Tokens, cost, waste and waiting time of models.",
    since="now-6h",
    variables=[
        label_variable("provider", "Provider", "tracereel_llm_calls_total", "llm_provider"),
        label_variable("model", "Model", "tracereel_llm_calls_total", "llm_model"),
    ],
    rows=[
        (
            "Every client, from the store",
            [
                stat(
                    "Calls, cost and tokens",
                    "Over the time shown, each call once, whatever told of it: the SDK, OpenTelemetry or both.",
                    sql("models_now"), width=24,
                    overrides=[
                        column("calls", displayName="calls"),
                        coloured("failing", rising(0.02, 0.1), displayName="failing", unit="percentunit", decimals=1),
                        column("tokens", displayName="tokens"),
                        column("cost", displayName="cost", unit=USD, decimals=2),
                        coloured(
                            "without_price", ((None, "green"), (0.001, "orange")),
                            displayName="tokens without a price", unit="percentunit", decimals=1,
                        ),
                    ],
                ),
                lines(
                    "Cost, by model", "Sent, else by the price table, per interval.",
                    sql("model_costs", over_time=True), unit=USD, stacked=True,
                ),
                lines(
                    "Tokens, by model", "Of all calls, per interval.",
                    sql("model_tokens", over_time=True), stacked=True,
                ),
                lines(
                    "First token p95, by model", "95 of 100 streamed answers begin sooner.",
                    sql("model_first_tokens", over_time=True), unit="ms", defaults={"noValue": "no streams"},
                ),
                lines(
                    "Duration p95, by model", "95 of 100 calls are quicker.",
                    sql("model_durations", over_time=True), unit="ns",
                ),
            ],
        ),
        (
            "Now, of programs with the SDK",
            [
                stat(
                    "Cost per hour", "Of all agents, at the rate of the last five minutes.",
                    prom("tracereel:cost_usd:per_hour"), unit=USD, defaults={"decimals": 2},
                ),
                stat(
                    "Cost wasted",
                    "Share of the cost that was for nothing: it failed, was repeated or replaced.",
                    prom(
                        f"(sum(rate({WASTE}[$__range])) or vector(0)) / (sum(rate({COST}[$__range])) > 0)"
                    ),
                    unit="percentunit",
                    steps=rising(0.1, 0.25),
                    defaults={"noValue": "no cost", "decimals": 1},
                ),
                stat(
                    "Spent", "In the time shown above.", prom(f"sum(increase({COST}[$__range]))"),
                    unit=USD, defaults={"decimals": 2},
                ),
                stat("Calls per second", "Calls of models that ended.", prom(CALLS), defaults={"decimals": 1}),
                stat(
                    "Calls that fail",
                    "Failed or cancelled, of all calls.",
                    prom(
                        f'(sum(rate(tracereel_llm_calls_total{{{M}, status!="success"}}[$__rate_interval]))'
                        f" or vector(0)) / ({CALLS} > 0)"
                    ),
                    unit="percentunit",
                    steps=rising(0.02, 0.1),
                    defaults={"noValue": "idle", "decimals": 1},
                ),
                stat(
                    "Calls without a price",
                    "Stored calls whose cost is unknown because no price is known; docs/prices.md says how to tell one.",
                    prom("sum(tracereel_unpriced_model_calls) or vector(0)"),
                    steps=((None, "green"), (1, "orange")),
                    defaults={"decimals": 0},
                ),
            ],
        ),
        (
            "Cost",
            [
                lines(
                    "Cost per hour, by agent", "Of executions, calls included.",
                    prom(_hourly(COST, "agent_name"), "{{agent_name}}"),
                    unit=USD, stacked=True,
                ),
                lines(
                    "Cost per hour, by model", "Of calls that are recorded themselves.",
                    prom(
                        _hourly("tracereel_llm_cost_usd_total", "llm_provider, llm_model", f"{{{M}}}"),
                        "{{llm_provider}} / {{llm_model}}",
                    ),
                    unit=USD, stacked=True,
                ),
                lines(
                    "Cost per hour, wasted",
                    "By cause: failed, cancelled, repeated attempts, routes that were replaced.",
                    prom(_hourly(WASTE, "cause"), "{{cause}}"),
                    unit=USD, stacked=True, defaults={"noValue": "none"},
                ),
            ],
        ),
        (
            "Tokens",
            [
                lines(
                    "Tokens per minute, of agents", "What executions say they used, whether their calls are recorded or not.",
                    prom(
                        "60 * sum by (direction) (rate(tracereel_agent_tokens_total[$__rate_interval]))",
                        "{{direction}}",
                    ),
                    stacked=True,
                ),
                lines(
                    "Tokens per minute, by model", "Of calls that are recorded themselves: less than beside, where agents tell only sums.",
                    prom(
                        "60 * sum by (llm_model, direction)"
                        f" (rate(tracereel_llm_tokens_total{{{M}}}[$__rate_interval]))",
                        "{{llm_model}} {{direction}}",
                    ),
                    stacked=True,
                ),
                lines(
                    "Quota left", "Tokens that providers say are left.",
                    prom(f"min by (llm_provider) (llm_tokens_remaining{{{P}}})", "{{llm_provider}}"),
                    defaults={"noValue": "no provider has said"},
                ),
            ],
        ),
        (
            "Waiting",
            [
                lines(
                    "First token p95", "95 of 100 streamed answers begin sooner. Below the smallest bucket, 50 ms, nothing is told apart.",
                    prom(
                        "histogram_quantile(0.95, sum by (llm_model, le)"
                        f" (rate(tracereel_llm_time_to_first_token_seconds_bucket{{{M}}}[$__rate_interval])))",
                        "{{llm_model}}", exemplars=True,
                    ),
                    unit="s", defaults={"noValue": "no streams"},
                ),
                lines(
                    "Duration of requests p95", "95 of 100 requests are quicker, by provider. Below the smallest bucket, half a second, nothing is"
                    " told apart; the table below is exact.",
                    prom(
                        "histogram_quantile(0.95, sum by (llm_provider, le)"
                        f" (rate(llm_request_duration_seconds_bucket{{{P}}}[$__rate_interval])))",
                        "{{llm_provider}}", exemplars=True,
                    ),
                    unit="s",
                ),
                lines(
                    "Calls per minute, by status", "By model and how they ended.",
                    prom(
                        f"60 * sum by (llm_model, status) (rate(tracereel_llm_calls_total{{{M}}}[$__rate_interval]))",
                        "{{llm_model}} {{status}}",
                    ),
                    bars=True, stacked=True,
                ),
            ],
        ),
        (
            "Every model in a line",
            [
                table(
                    "Models",
                    "Calls in the store over the time shown, each counted once; cost as sent, else by the price list.",
                    sql("model_table"),
                    height=9,
                    overrides=[
                        coloured("failed", rising(0.02, 0.1), unit="percentunit", decimals=1),
                        column("cost", unit=USD, decimals=4),
                        column("prompt_tokens", displayName="tokens in", unit="short"),
                        column("completion_tokens", displayName="tokens out", unit="short"),
                        column("cost_per_call", displayName="cost of a call", unit=USD, decimals=4),
                        column("p95", unit="ns"),
                        coloured(
                            "calls_without_cost", ((None, "text"), (1, "orange")), displayName="without a price",
                        ),
                    ],
                )
            ],
        ),
    ],
)  # fmt: skip
