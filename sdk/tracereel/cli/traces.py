"""`tracereel traces`: list runs that match filters."""

import argparse
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from tracereel.cli.asking import (
    add_filters,
    add_options,
    add_run_filters,
    add_window,
    asked,
    filters_of,
    print_json,
    print_lines,
)
from tracereel.cli.command import Command
from tracereel.cli.connection import positive
from tracereel.cli.progress import progress
from tracereel.cli.registry import BASE_COMMANDS
from tracereel.cli.steps import duration, money
from tracereel.cli.tables import Cell, TableColumn, table
from tracereel.cli.terminal import Terminal
from tracereel.client import Client, Run

LIMIT: Final = 20
_SORTS: Final = (
    "started_at",
    "duration_ms",
    "cost_usd",
    "tokens",
    "events",
    "errors",
    "confidence",
)
STATUS_STYLES: Final = {
    "success": "green",
    "partial_success": "yellow",
    "running": "blue",
    "failed": "red",
    "crashed": "red",
    "retried": "yellow",
    "cancelled": "yellow",
}
_COLUMNS: Final = (
    TableColumn("started", needed=6, least=19),
    TableColumn("status", needed=8, least=9),
    TableColumn("took", right=True, needed=7, least=9),
    TableColumn("run", needed=5, least=6),
    TableColumn("agents", needed=3, least=8),
    TableColumn("errors", right=True, least=9, needed=5),
    TableColumn("retries", right=True, least=9, needed=2),
    TableColumn("tokens", right=True, least=9, needed=2),
    TableColumn("cost", right=True, least=9, needed=4),
    TableColumn("asked for", needed=1, least=12),
    TableColumn("trace", needed=9, least=40),
)


def _configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, json_help="Print the runs as JSON, one a line.")
    add_filters(parser)
    add_run_filters(parser)
    add_window(parser)
    parser.add_argument("--sort", choices=_SORTS, default="started_at", help="What to sort by.")
    parser.add_argument("--reverse", action="store_true", help="The least or oldest first.")
    parser.add_argument(
        "--limit", type=positive, default=LIMIT, metavar="N", help=f"Most runs ({LIMIT})."
    )


def _run(args: argparse.Namespace) -> int:
    return asked(args, lambda client, terminal: _show(args, client, terminal))


def _show(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    runs: list[Run] = []
    found = client.find(
        most=args.limit,
        sort=args.sort,
        order="asc" if args.reverse else "desc",
        **filters_of(args, "since", "until"),
    )
    with progress("searching") as shown:
        for run in found:
            runs.append(run)
            shown.told(len(runs), args.limit)
    if args.json:
        for run in runs:
            print_json(run.model_dump(mode="json"))
    else:
        print_lines(lines_of(runs, terminal))
    return 0


def lines_of(runs: Sequence[Run], terminal: Terminal) -> Iterator[str]:
    """Yield one table line per run."""
    if not runs:
        yield "no runs"
        return
    yield from table(_COLUMNS, [_row(run) for run in runs], terminal)


def _row(run: Run) -> list[Cell | str]:
    return [
        Cell(moment(run.started_at), ("dim",)),
        status_cell(run.status),
        duration(run.duration_ms),
        run.name or run.pipeline_type or "",
        ", ".join(run.agents),
        Cell(str(run.errors or ""), ("red",)),
        str(run.retries or ""),
        f"{run.tokens:,}" if run.tokens else "",
        money(run.cost_usd) if run.cost_usd else "",
        run.prompt or "",
        run.trace_id,
    ]


def status_cell(status: str | None) -> Cell:
    """Return a status in its colour."""
    style = STATUS_STYLES.get(status or "")
    return Cell(status or "", (style,) if style else ())


def moment(when: datetime | None) -> str:
    """Format a time as local date and time, to the second."""
    return "" if when is None else when.astimezone().strftime("%Y-%m-%d %H:%M:%S")


COMMAND: Final = Command("traces", BASE_COMMANDS["traces"].help, _configure, _run)
