"""`tracereel agents`: show statistics of all agents or one over a time window."""

import argparse
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from tracereel.cli.asking import (
    add_limit,
    add_options,
    add_window,
    collector_command,
    print_json,
    print_lines,
)
from tracereel.cli.progress import progress
from tracereel.cli.steps import count, duration, joined, money, number, some, tokens
from tracereel.cli.tables import Cell, TableColumn, table
from tracereel.cli.terminal import Terminal
from tracereel.client import Agent, Client
from tracereel.client.filters import as_params

_BAD: Final = 0.1
"""Error rate from which on it is shown in red."""
_COLUMNS: Final = (
    TableColumn("agent", needed=9, least=16),
    TableColumn("calls", right=True, least=9, needed=8),
    TableColumn("per min", right=True, least=9, needed=2),
    TableColumn("failed", right=True, least=9, needed=7),
    TableColumn("errors", right=True, least=9, needed=7),
    TableColumn("retries", right=True, least=9, needed=4),
    TableColumn("fallbacks", right=True, least=9, needed=3),
    TableColumn("p50", right=True, least=9, needed=5),
    TableColumn("p95", right=True, least=9, needed=6),
    TableColumn("confidence", right=True, least=9, needed=3),
    TableColumn("tokens", right=True, least=9, needed=2),
    TableColumn("cost", right=True, least=9, needed=5),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="One agent (default: all).")
    add_options(parser, json_help="Print the collector's JSON as it is, for machines.")
    add_window(parser)
    add_limit(parser, 50, "agents")


@collector_command
def run(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    """Show one agent, or a table of all."""
    window = {"since": args.since, "until": args.until}
    if args.json:
        path = f"/v1/agents/{quote(args.name, safe='')}" if args.name else "/v1/agents"
        params = as_params(window if args.name else {**window, "limit": args.limit})
        with progress("asking"):
            answer = client.fetch("GET", path, params)
        print_json(answer.body)
        return 0
    with progress("asking"):
        found = (
            [client.agent(args.name, **window)]
            if args.name
            else client.agents(**window, limit=args.limit).agents
        )
    if args.name:
        print_lines(terminal.rows(_about(found[0]), 10))
    else:
        empty = "no agents in this window; --since 24h looks further back"
        print_lines(table(_COLUMNS, map(_row, found), terminal, empty=empty))
    return 0


def _row(agent: Agent) -> list[Cell | str]:
    rate = agent.error_rate
    return [
        Cell(agent.agent, ("bold",)),
        f"{agent.executions:,}",
        f"{agent.executions_per_minute:.3g}" if agent.executions_per_minute else "",
        str(agent.failed or ""),
        Cell("" if rate is None else f"{rate:.1%}", ("red",) if (rate or 0) >= _BAD else ()),
        str(agent.retries or ""),
        str(agent.fallbacks or ""),
        duration(number(agent.latency, "p50_ms")),
        duration(number(agent.latency, "p95_ms")),
        _share(agent.confidence),
        f"{agent.tokens:,}" if agent.tokens else "",
        money(agent.cost_usd) if agent.cost_usd else "",
    ]


def _about(agent: Agent) -> list[tuple[str, str]]:
    """Return labels and values that describe one agent."""
    latency = [
        f"{name} {duration(number(agent.latency, f'{name}_ms'))}"
        for name in ("p50", "p90", "p95", "p99")
        if number(agent.latency, f"{name}_ms") is not None
    ]
    ended = [
        count(agent.executions, "call", "calls"),
        some(agent.failed, "failed", "failed"),
        some(agent.cancelled, "cancelled", "cancelled"),
        f"{agent.error_rate:.1%} errors" if agent.error_rate else "",
    ]
    again = [
        some(agent.retries, "retry", "retries"),
        some(agent.fallbacks, "fallback", "fallbacks"),
    ]
    calls = [
        some(agent.model_calls, "model call", "model calls"),
        some(agent.tool_calls, "tool call", "tool calls"),
        some(agent.decisions, "decision", "decisions"),
    ]
    return [
        ("agent", agent.agent),
        ("calls", joined(ended)),
        ("retries", joined(again)),
        ("latency", joined(latency)),
        ("confidence", _share(agent.confidence)),
        ("inside", joined(calls)),
        ("used", joined([tokens(agent.tokens), money(agent.cost_usd)])),
        ("errors", _counted(agent.errors)),
        ("models", _counted(agent.models)),
    ]


def _share(confidence: Mapping[str, Any]) -> str:
    mean = number(confidence, "mean")
    return "" if mean is None else f"{mean:.2f}"


def _counted(counts: Mapping[str, int]) -> str:
    return joined(f"{name} {times:,}" for name, times in counts.items())
