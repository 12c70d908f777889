"""`tracereel traces`: list runs that match filters."""

import argparse
from collections.abc import Sequence
from datetime import datetime
from typing import Final, get_args

from tracereel.cli.asking import (
    add_filters,
    add_limit,
    add_options,
    add_run_filters,
    add_window,
    asked,
    collector_command,
    filters_of,
    print_json,
    print_lines,
)
from tracereel.cli.progress import progress
from tracereel.cli.steps import duration, money
from tracereel.cli.tables import Cell, TableColumn, table
from tracereel.cli.terminal import Terminal
from tracereel.client import Client, Run
from tracereel.client.sync import Sort

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
    TableColumn("duration", right=True, needed=7, least=9),
    TableColumn("name", needed=5, least=6),
    TableColumn("agents", needed=3, least=8),
    TableColumn("errors", right=True, least=9, needed=5),
    TableColumn("retries", right=True, least=9, needed=2),
    TableColumn("tokens", right=True, least=9, needed=2),
    TableColumn("cost", right=True, least=9, needed=4),
    TableColumn("asked", needed=1, least=12),
    TableColumn("answered", needed=0, least=12),
    TableColumn("trace", needed=9, least=40),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_options(parser, json_help="Print the runs as JSON, one a line.")
    add_filters(parser)
    add_run_filters(parser)
    add_window(parser)
    parser.add_argument(
        "--sort", choices=get_args(Sort), default="started_at", help="What to sort by."
    )
    parser.add_argument("--reverse", action="store_true", help="The least or oldest first.")
    add_limit(parser, 20, "runs")


@collector_command
def run(args: argparse.Namespace, client: Client, terminal: Terminal) -> int:
    """Show a table of the runs that match the filters."""
    found = client.find(
        most=args.limit,
        sort=args.sort,
        order="asc" if args.reverse else "desc",
        **filters_of(args, "since", "until"),
    )
    with progress("searching") as shown:
        runs = shown.collect(found, args.limit)
    if args.json:
        for each in runs:
            print_json(each.model_dump(mode="json"))
    else:
        runs = with_asked(client, runs)
        print_lines(table(_COLUMNS, map(_row, runs), terminal, empty="no runs"))
    return 0


def with_asked(client: Client, runs: Sequence[Run]) -> list[Run]:
    """Return the runs with question and answer; those of spans are read from their content."""
    lacking = [run.trace_id for run in runs if run.spans and not (run.prompt or run.answer)]
    found = asked(client, lacking)
    return [
        run.model_copy(update={"prompt": each.asked, "answer": each.answered})
        if (each := found.get(run.trace_id))
        else run
        for run in runs
    ]


def _row(run: Run) -> list[Cell | str]:
    style = STATUS_STYLES.get(run.status or "")
    return [
        Cell(moment(run.started_at), ("dim",)),
        Cell(run.status or "", (style,) if style else ()),
        duration(run.duration_ms),
        run.name or run.pipeline_type or "",
        ", ".join(run.agents),
        Cell(str(run.errors or ""), ("red",)),
        str(run.retries or ""),
        f"{run.tokens:,}" if run.tokens else "",
        money(run.cost_usd) if run.cost_usd else "",
        run.prompt or "",
        run.answer or "",
        run.trace_id,
    ]


def moment(when: datetime | None) -> str:
    """Format a time as local date and time, to the second."""
    return "" if when is None else when.astimezone().strftime("%Y-%m-%d %H:%M:%S")
