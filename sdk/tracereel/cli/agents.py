"""`tracereel agents`: show statistics of all agents or one over a time window."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from tracereel.cli.asking import add_options, add_window, asked, print_json, print_lines
from tracereel.cli.command import Command
from tracereel.cli.connection import positive
from tracereel.cli.progress import progress
from tracereel.cli.registry import BASE_COMMANDS
from tracereel.cli.steps import count, duration, money, number
from tracereel.cli.tables import Cell, TableColumn, table
from tracereel.cli.terminal import Terminal, clean
from tracereel.client import Agent, Client
from tracereel.client.filters import as_params

LIMIT: Final = 50
_BAD: Final = 0.1
"""Error rate from which on it is shown in red."""
_COLUMNS: Final = (
    TableColumn("agent", needed=9, least=16),
    TableColumn("runs", right=True, least=9, needed=8),
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


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="One agent (default: all).")
    add_options(parser, json_help="Print the collector's JSON as it is, for machines.")
    add_window(parser)
    parser.add_argument(
        "--limit", type=positive, default=LIMIT, metavar="N", help=f"Most agents ({LIMIT})."
    )


def _run(args: argparse.Namespace) -> int:
    return asked(args, lambda client, terminal: _show(args, client, terminal))


def _show(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
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
            else list(client.agents(**window, limit=args.limit).agents)
        )
    print_lines(one_of(found[0], terminal) if args.name else lines_of(found, terminal))
    return 0


def lines_of(agents: Sequence[Agent], terminal: Terminal) -> Iterator[str]:
    """Yield one table line per agent."""
    if not agents:
        yield "no agents in this window; --since 24h looks further back"
        return
    yield from table(_COLUMNS, [_row(agent) for agent in agents], terminal)


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


def one_of(agent: Agent, terminal: Terminal) -> Iterator[str]:
    """Yield a few lines about one agent."""
    latency = [
        f"{name} {duration(number(agent.latency, f'{name}_ms'))}"
        for name in ("p50", "p90", "p95", "p99")
        if number(agent.latency, f"{name}_ms") is not None
    ]
    ended = [
        count(agent.executions, "execution", "executions"),
        count(agent.failed, "failed", "failed") if agent.failed else "",
        count(agent.cancelled, "cancelled", "cancelled") if agent.cancelled else "",
        f"{agent.error_rate:.1%} errors" if agent.error_rate else "",
    ]
    rows = [
        ("agent", agent.agent),
        ("executed", " · ".join(filter(None, ended))),
        ("retries", " · ".join(filter(None, _again(agent)))),
        ("latency", " · ".join(latency)),
        ("confidence", _share(agent.confidence)),
        ("calls", " · ".join(filter(None, _calls(agent)))),
        ("used", " · ".join(filter(None, [_tokens(agent), money(agent.cost_usd)]))),
        ("errors", _counted(agent.errors)),
        ("models", _counted(agent.models)),
    ]
    for label, value in rows:
        if value:
            shown = terminal.fit(terminal.shown(clean(value)), terminal.width - 11)
            yield f"{terminal.paint(f'{label:<10}', 'dim')} {shown}"


def _again(agent: Agent) -> list[str]:
    return [
        count(agent.retries, "retry", "retries") if agent.retries else "",
        count(agent.fallbacks, "fallback", "fallbacks") if agent.fallbacks else "",
    ]


def _calls(agent: Agent) -> list[str]:
    return [
        count(agent.model_calls, "model call", "model calls") if agent.model_calls else "",
        count(agent.tool_calls, "tool call", "tool calls") if agent.tool_calls else "",
        count(agent.decisions, "decision", "decisions") if agent.decisions else "",
    ]


def _tokens(agent: Agent) -> str:
    return f"{agent.tokens:,} tokens" if agent.tokens else ""


def _share(confidence: Mapping[str, Any]) -> str:
    mean = number(confidence, "mean")
    return "" if mean is None else f"{mean:.2f}"


def _counted(counts: Mapping[str, int]) -> str:
    return " · ".join(f"{name} {times:,}" for name, times in counts.items())


COMMAND: Final = Command("agents", BASE_COMMANDS["agents"].help, _configure, _run)
